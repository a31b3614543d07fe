"""The family `transformer_translation`: a Transformer, from text to text."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.models.sequence_to_sequence import SequenceToSequence
from keras_attention.models.transformer import TransformerDecoder, TransformerEncoder
from keras_attention.models.transformer_config import TransformerConfig

__all__ = ["TransformerConfig", "TransformerTranslationModel"]


@keras.saving.register_keras_serializable("keras_attention")
class TransformerTranslationModel(SequenceToSequence):
    """Transformer (Vaswani et al., 2017, arXiv 1706.03762).

    Differs from the paper: normalisation before each sublayer; any score and alignment may be chosen.

    Args:
        config: `TransformerConfig` or the dict of one.
        tokenizer: `SentencePieceTokenizer` or `WordTokenizer`; only needed by what reads or writes text.

    Call arguments, returns: as `SequenceToSequence`.
    """

    family = "transformer_translation"
    task = "translation"
    verb = "translate"
    config_class = TransformerConfig

    def build_network(self):
        shape = (None, None, self.config.embedding_dim)
        self.encoder = TransformerEncoder(self.config, dtype=self.dtype_policy, name="encoder")
        self.encoder.build(shape)
        self.decoder = TransformerDecoder(self.config, dtype=self.dtype_policy, name="decoder")
        self.decoder.build(shape)

    def encode(self, source, training=None):
        """source int32 (B, Tv) → for each layer of the decoder its keys and values; no states."""
        mask = ops.not_equal(source, self.pad_id)
        embedded = self.embed(self.source_embedding, source, training=training)
        return self.decoder.prepare(self.encoder(embedded, mask=mask, training=training), mask), ()

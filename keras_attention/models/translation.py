"""The family `translation`: a recurrent encoder and decoder, with any attention or none, from text to text."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.models.attention_decoder import AttentionDecoder
from keras_attention.models.mechanisms import make_attention
from keras_attention.models.plain_decoder import PlainDecoder
from keras_attention.models.recurrent_encoder import RecurrentEncoder
from keras_attention.models.sequence_to_sequence import SequenceToSequence
from keras_attention.models.translation_config import TranslationConfig

__all__ = ["TranslationConfig", "TranslationModel"]


@keras.saving.register_keras_serializable("keras_attention")
class TranslationModel(SequenceToSequence):
    """Recurrent sequence to sequence, with any attention or none.

    Luong et al., 2015 (arXiv 1508.04025), Bahdanau et al., 2015 (arXiv 1409.0473), Sutskever et al., 2014 (arXiv
    1409.3215), Cho et al., 2014 (arXiv 1406.1078), as the configuration says.
    Differs from the papers: subword pieces instead of words, embeddings may be tied, label smoothing.

    Args:
        config: `TranslationConfig` or the dict of one.
        tokenizer: `SentencePieceTokenizer`; only needed by what reads or writes text.

    Call arguments, returns: as `SequenceToSequence`.
    """

    family = "translation"
    task = "translation"
    verb = "translate"
    config_class = TranslationConfig

    def build_network(self):
        config, policy = self.config, self.dtype_policy
        common = {
            "cell": config.cell,
            "units": config.units,
            "num_layers": config.num_layers,
            "layer_normalization": config.layer_normalization,
            "dropout": config.dropout,
            "dtype": policy,
        }
        self.encoder = RecurrentEncoder(bidirectional=config.bidirectional, name="encoder", **common)
        self.encoder.build((None, None, config.embedding_dim))
        self.state_dropout = keras.layers.Dropout(config.state_dropout, dtype=policy, name="state_dropout")
        if config.attention == "none":
            self.decoder = PlainDecoder(config.wiring, config.encoder_context, name="decoder", **common)
        else:
            attention = make_attention(
                config.attention, config.score, config.score_units, config.attention_options, policy
            )
            self.decoder = AttentionDecoder(attention, order=config.order, feed=config.feed, name="decoder", **common)
        self.decoder.build((None, None, config.embedding_dim), (None, None, config.units))

    def encode(self, source, training=None):
        """source int32 (B, Tv) → what the decoder reads at each step, the encoder's last states layer by layer."""
        mask = ops.not_equal(source, self.pad_id)
        embedded = self.embed(self.source_embedding, source, training=training)
        values, states = self.encoder(embedded, mask=mask, training=training)
        values = self.state_dropout(values, training=training)
        return self.decoder.prepare(values, mask, states), states

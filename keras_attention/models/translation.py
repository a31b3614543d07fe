"""The family `translation`: a recurrent encoder and decoder, with any attention or none, from text to text."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.models.attention_decoder import AttentionDecoder
from keras_attention.models.keras_encoder import KerasEncoder
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
        tokenizer: `SentencePieceTokenizer` or `WordTokenizer`; only needed by what reads or writes text.
        encoder: `keras.Model`, ids int32 (B, Tv) → states (B, Tv, D) or a list of them, layer by layer, of which the
            decoder reads a learnt mix; see `KerasEncoder`. It takes the place of the model's own encoder and its
            embeddings: bidirectional and source_embeddings then say nothing. Such a model trains with `fit` and saves
            as `.keras`, but no preset can hold it.

    Call arguments, returns: as `SequenceToSequence`.

    Raises:
        TypeError, ValueError: `encoder` is no such model, or the configuration ties embeddings that it does not have.
    """

    family = "translation"
    task = "translation"
    verb = "translate"
    config_class = TranslationConfig

    def __init__(self, config, tokenizer=None, encoder=None, **kwargs):
        # past Keras, which would track it beside the layer that holds it
        object.__setattr__(self, "own_encoder", encoder)
        super().__init__(config, tokenizer, **kwargs)

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
        value_units = self._build_encoder(common)
        self.state_dropout = keras.layers.Dropout(config.state_dropout, dtype=policy, name="state_dropout")
        if config.attention == "none":
            self.decoder = PlainDecoder(config.wiring, config.encoder_context, name="decoder", **common)
        else:
            attention = make_attention(
                config.attention, config.score, config.score_units, config.attention_options, policy
            )
            self.decoder = AttentionDecoder(attention, order=config.order, feed=config.feed, name="decoder", **common)
        self.decoder.build((None, None, self.target_embedding.output_dim), (None, None, value_units))

    def _build_encoder(self, common):
        """Makes `self.encoder`; returns the width of what it gives."""
        config = self.config
        if self.own_encoder is None:
            self.encoder = RecurrentEncoder(bidirectional=config.bidirectional, name="encoder", **common)
            self.encoder.build((None, None, self.source_embedding.output_dim))
            return config.units
        self.encoder = KerasEncoder(
            self.own_encoder, config.cell, config.units, config.num_layers, dtype=self.dtype_policy, name="encoder"
        )
        self.encoder.build()
        return self.encoder.output_dim

    def _new_source_embedding(self):
        if self.own_encoder is None:
            return super()._new_source_embedding()
        if self.config.tie_embeddings == "all":
            raise ValueError(
                "`tie_embeddings` is 'all', but the embeddings of the source are within an `encoder` of your own. Set "
                "it to 'output' or 'none'."
            )
        return None

    def encode(self, source, training=None):
        """source int32 (B, Tv) → what the decoder reads at each step, the encoder's last states layer by layer."""
        mask = ops.not_equal(source, self.pad_id)
        read = source
        if self.own_encoder is None:
            read = self.embed(self.source_embedding, source, training=training)
        values, states = self.encoder(read, mask=mask, training=training)
        values = self.state_dropout(values, training=training)
        return self.decoder.prepare(values, mask, states), states

    @property
    def beyond_preset(self):
        return "" if self.own_encoder is None else "an `encoder` of your own"

    def get_config(self):
        config = super().get_config()
        if self.own_encoder is not None:
            config["encoder"] = keras.saving.serialize_keras_object(self.own_encoder)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if isinstance(config.get("encoder"), dict):
            config["encoder"] = keras.saving.deserialize_keras_object(config["encoder"], custom_objects=custom_objects)
        return super().from_config(config, custom_objects)

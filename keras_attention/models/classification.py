"""Text classification: a label for a text, and the words that were looked at."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import (
    AttentivePooling,
    MaxPooling,
    MeanPooling,
    MultiDimAttention,
    OrthogonalityRegularizer,
    StructuredAttention,
)
from keras_attention.maps import AttentionMap
from keras_attention.models.classification_config import ClassificationConfig
from keras_attention.models.label_model import LabelModel
from keras_attention.models.text_encoder import make_encoder

__all__ = ["ClassificationModel"]


@keras.saving.register_keras_serializable("keras_attention")
class ClassificationModel(LabelModel):
    """Words through an encoder into a vector, by attention, and a label from the vector.

    Lin et al., 2017 (arXiv 1703.03130): a bidirectional LSTM, r rows of structured self-attention, a layer, a softmax;
    their penalty is `config.penalty`. With the encoder "directional" and the pooling "multi_dim" it is DiSAN of Shen et
    al., 2018 (arXiv 1709.04696).

    Args:
        config: `ClassificationConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer` or another; without one the model reads ids only.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `text` int32 (B, T), padded with 0.

    Returns:
        logits (B, C).

    Example:
        model = keras_attention.zoo.load("classify_multidim")
        model.classify("a gripping and moving film").output
    """

    family, task, verb = "classification", "classification", "classify"
    config_class = ClassificationConfig

    def build_network(self):
        config, policy = self.config, self.dtype_policy
        self.encoder, width = make_encoder(
            config.encoder, config.units, config.embedding_dim, config.num_layers, config.dropout, policy
        )
        self.pooling, vector = self._new_pooling(width)
        self.hidden = None
        if config.hidden_units:
            self.hidden = keras.layers.Dense(config.hidden_units, activation="relu", dtype=policy, name="hidden")
            self.hidden.build((None, vector))
            vector = config.hidden_units
        return vector

    def _new_pooling(self, width):
        """The layer, built, and the width of what it makes of states of this width."""
        config, options = self.config, {"dtype": self.dtype_policy, "name": "pooling"}
        shape = (None, None, width)
        if config.pooling == "multi_dim":
            layer = MultiDimAttention(units=config.attention_units, **options)
            layer.build([(None, 1, 1), shape])
            return layer, width
        if config.pooling == "structured":
            penalty = OrthogonalityRegularizer(config.penalty) if config.penalty else None
            layer = StructuredAttention(config.rows, config.attention_units, weights_regularizer=penalty, **options)
        elif config.pooling == "attentive":
            layer = AttentivePooling(config.attention_units, **options)
        else:
            layer = (MaxPooling if config.pooling == "max" else MeanPooling)(**options)
        layer.build(shape)
        return layer, width * (config.rows if config.pooling == "structured" else 1)

    def classify(self, inputs, **options):
        """Labels one text or a list of texts.

        Args:
            inputs: str, or list of str.
            n_best: int > 0. How many labels, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs: `output` is the label, `score` its probability,
            `extra["probabilities"]` has that of each label.

        Raises:
            TypeError, ValueError: see `run`.
        """
        return self.run(inputs, **options)

    def read(self, inputs, training=None):
        ids = inputs["text"]
        mask = tf.not_equal(ids, self.pad_id)
        states = self.embed(ids, training)
        if self.encoder is not None:
            states, _ = self.encoder(states, mask=mask, training=training)
        vector, weights = self._pool(states, mask, training)
        if self.hidden is not None:
            vector = self.hidden(self.dropout(vector, training=training))
        return vector, {"words": weights}

    def _pool(self, states, mask, training):
        if self.config.pooling == "multi_dim":  # a query of 0 leaves the key and the bias of the score
            query = tf.zeros_like(states[:, :1, :1])
            vector, weights = self.pooling(
                [query, states], mask=[None, mask], return_attention_scores=True, training=training
            )
            return vector[:, 0], weights[:, :, 0]  # weights (B, channels, T)
        vector, weights = self.pooling(states, mask=mask, return_attention_scores=True, training=training)
        if self.config.pooling == "structured":
            vector = tf.reshape(vector, [-1, vector.shape[1] * vector.shape[2]])
        return vector, weights

    def attention_maps(self, ids, weights):
        """One map: a row for each row of attention; of many channels, or of a maximum, their mean in one row."""
        words = self.tokenizer.tokens(ids["text"])
        own = np.asarray(weights["words"])[..., : len(words)]
        if self.config.pooling == "structured":
            rows = [f"row {number}" for number in range(1, len(own) + 1)]
        else:
            rows, own = ["label"], own.reshape(-1, len(words)).mean(axis=0, keepdims=True)
        return [AttentionMap("words", "pooling", self.config.pooling, own, rows, words)]

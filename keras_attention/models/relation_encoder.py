"""Words with the places of two entities into states: by an LSTM in both directions, or by self-attention."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.layers import SelfAttention
from keras_attention.models.recurrent_encoder import RecurrentEncoder

__all__ = ["AddedDirections", "RelativePositions", "SelfAttentionEncoder"]


class RelativePositions(keras.layers.Layer):
    """For each word its distance to the start of either entity, embedded.

    Zeng et al., 2014 (COLING, C14-1220), position features: a vector for each relative distance, one for each of the
    two entities, learnt. Differs from the paper: distances beyond `range_` share a vector.

    Args:
        width: int > 0. Of the vector for each entity.
        range_: int > 0, in words.

    Call arguments:
        starts: bool (B, T, 2), where each entity starts. An entity that starts nowhere counts as at the first word.

    Returns:
        (B, T, 2 · width).
    """

    def __init__(self, width, range_, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.range_ = range_
        self.embeddings = [
            keras.layers.Embedding(2 * range_ + 1, width, dtype=self.dtype_policy, name=name)
            for name in ("first", "second")
        ]

    def build(self, input_shape):
        for embedding in self.embeddings:
            embedding.build()
        self.built = True

    def call(self, starts):
        places = tf.range(tf.shape(starts)[1])
        found = []
        for number, embedding in enumerate(self.embeddings):
            start = tf.argmax(tf.cast(starts[:, :, number], tf.int32), axis=1, output_type=tf.int32)
            distance = places[None, :] - start[:, None]
            found.append(embedding(tf.clip_by_value(distance, -self.range_, self.range_) + self.range_))
        return ops.concatenate(found, axis=-1)


class AddedDirections(keras.layers.Layer):
    """LSTM layers in both directions, whose states are added: `h_i = h→_i ⊕ h←_i` (Zhou et al., 2016, an
    element-wise sum), or stand side by side.

    Args:
        units: int > 0. Width of the states that come out.
        num_layers: int > 0. Between them, both directions stand side by side.
        directions: "sum" or "concat".
        dropout: float in [0, 1). Between the layers.

    Call arguments:
        inputs: float (B, T, E).
        mask: bool (B, T), True = keep.

    Returns:
        states (B, T, units), and no weights.
    """

    def __init__(self, units, num_layers, directions, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.adds = directions == "sum"
        self.units = units
        wide = 2 * units if self.adds else units
        self.recurrent = RecurrentEncoder(
            "lstm", wide, num_layers, True, dropout=dropout, dtype=self.dtype_policy, name="recurrent"
        )

    def build(self, input_shape):
        self.recurrent.build(input_shape)
        self.built = True

    def call(self, inputs, mask=None, training=None):
        states, _ = self.recurrent(inputs, mask=mask, training=training)
        if self.adds:
            states = states[..., : self.units] + states[..., self.units :]
        return states, None


class SelfAttentionEncoder(keras.layers.Layer):
    """Layers of self-attention and of a feed-forward network, each behind a normalisation and beside a residual
    connection.

    Vaswani et al., 2017 (arXiv 1706.03762), section 3.1. Differs from the paper: normalised before, as Xiong et al.,
    2020 (arXiv 2002.04745); no sinusoids, the places come with the inputs.

    Args:
        units: int > 0. Width of the states.
        num_layers, num_heads: int > 0.
        dropout: float in [0, 1). Of what each sublayer gives.

    Call arguments:
        inputs: float (B, T, E).
        mask: bool (B, T), True = keep.

    Returns:
        states (B, T, units), and weights (B, layers · heads, T, T).
    """

    def __init__(self, units, num_layers, num_heads, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        policy = self.dtype_policy
        self.units = units
        self.project = keras.layers.Dense(units, dtype=policy, name="project")
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        numbers = range(num_layers)
        self.attentions = [SelfAttention(num_heads, dtype=policy, name=f"attention_{number}") for number in numbers]
        self.widens = [keras.layers.Dense(2 * units, "relu", dtype=policy, name=f"widen_{one}") for one in numbers]
        self.narrows = [keras.layers.Dense(units, dtype=policy, name=f"narrow_{one}") for one in numbers]
        self.norms = [
            keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name=f"norm_{number}")
            for number in range(2 * num_layers + 1)
        ]

    def build(self, input_shape):
        shape = (None, None, self.units)
        self.project.build(input_shape)
        for layer in (*self.attentions, *self.widens, *self.norms):
            layer.build(shape)
        for layer in self.narrows:
            layer.build((None, None, 2 * self.units))
        self.built = True

    def call(self, inputs, mask=None, training=None):
        states, found = self.project(inputs), []
        for number, attention in enumerate(self.attentions):
            read, weights = attention(
                self.norms[2 * number](states), mask=mask, return_attention_scores=True, training=training
            )
            states = states + self.dropout(read, training=training)
            fed = self.widens[number](self.norms[2 * number + 1](states))
            states = states + self.dropout(self.narrows[number](fed), training=training)
            found.append(weights)
        return self.norms[-1](states), ops.concatenate(found, axis=1)

"""`DeepAttention`: layers of self-attention and a nonlinear sublayer each, over a sequence of words."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.layers import SelfAttention
from keras_attention.models.both_directions import both_directions
from keras_attention.models.transformer import sinusoids

__all__ = ["NONLINEAR", "DeepAttention"]

NONLINEAR = ("feed_forward", "recurrent")


class DeepAttention(keras.layers.Layer):
    """The deep attentional network of Tan et al., 2018 (arXiv 1712.01586), over embedded words.

    To the inputs, projected to the width of the network, the timing signal is added, `sin(t / 10000^(2i/d))` in channel
    2i and `cos` of the same in channel 2i + 1, t from 0. Each layer is a nonlinear sublayer and one of multi-head
    self-attention; around each stands a residual connection, and layer normalisation behind it: `norm(x + F(x))`.
    "feed_forward" is their `FFN(X) = ReLU(X W₁) W₂`, "recurrent" their bidirectional LSTM, whose directions are summed.
    Differs from the paper: both dense layers have a bias; the inputs are projected, where theirs are as wide as the
    network; weights start as Keras starts them, not orthogonal; their convolution with gates is left out.

    Args:
        units: int > 0. Width of the network, even, and whole in `num_heads`.
        num_layers: int > 0.
        num_heads: int > 0.
        nonlinear: "feed_forward" or "recurrent".
        feed_forward_units: int > 0. Width of the hidden layer of "feed_forward".
        dropout: float in [0, 1). Of what each sublayer adds.
        attention_dropout: float in [0, 1). Of the attention weights.

    Call arguments:
        inputs: float (B, T, E).
        mask: bool (B, T), True = keep.
        return_weights: bool. Whether to return the weights of each layer too.

    Returns:
        states (B, T, units), and a list of weights (B, H, T, T), one a layer; an empty list without `return_weights`.
    """

    def __init__(
        self, units, num_layers, num_heads, nonlinear, feed_forward_units, dropout=0.0, attention_dropout=0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units, self.nonlinear = units, nonlinear
        policy = self.dtype_policy
        self.project = keras.layers.Dense(units, dtype=policy, name="project")
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        self.sublayers, self.attentions, self.norms = [], [], []
        for number in range(num_layers):
            self.sublayers.append(self._nonlinear(number, feed_forward_units))
            self.attentions.append(
                SelfAttention(num_heads, dropout=attention_dropout, dtype=policy, name=f"attention_{number}")
            )
            names = (f"nonlinear_norm_{number}", f"attention_norm_{number}")
            norms = [keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name=name) for name in names]
            self.norms.append(norms)

    def _nonlinear(self, number, hidden):
        policy = self.dtype_policy
        if self.nonlinear == "recurrent":
            lstm = keras.layers.LSTM(self.units, return_sequences=True, dtype=policy, name=f"lstm_{number}")
            return [both_directions(lstm, merge_mode="sum", dtype=policy, name=f"recurrent_{number}")]
        return [
            keras.layers.Dense(hidden, "relu", dtype=policy, name=f"widen_{number}"),
            keras.layers.Dense(self.units, dtype=policy, name=f"narrow_{number}"),
        ]

    def build(self, input_shape):
        self.project.build(input_shape)
        shape = (*input_shape[:-1], self.units)
        for parts, attention, norms in zip(self.sublayers, self.attentions, self.norms, strict=True):
            inner = shape
            for part in parts:
                part.build(inner)
                inner = (*inner[:-1], part.units) if self.nonlinear == "feed_forward" else shape
            attention.build(shape)
            for norm in norms:
                norm.build(shape)
        self.built = True

    def call(self, inputs, mask=None, training=None, return_weights=False):
        batch, length = ops.shape(inputs)[:2]
        shape = (batch, length, self.units)  # a batch of fixed size stays one, without which LiteRT runs no LSTM
        states = self.project(inputs)
        states += ops.cast(sinusoids(tf.range(tf.shape(inputs)[1]), self.units), states.dtype)
        states = self.dropout(states, training=training)
        found = []
        for parts, attention, norms in zip(self.sublayers, self.attentions, self.norms, strict=True):
            added = states
            for part in parts:
                added = part(added, mask=mask) if self.nonlinear == "recurrent" else part(added)
            states = norms[0](states + self.dropout(added, training=training))
            added = attention(states, mask=mask, return_attention_scores=return_weights, training=training)
            if return_weights:
                added, weights = added
                found.append(weights)
            states = norms[1](states + self.dropout(added, training=training))
            states = ops.reshape(states, shape)
        return states, found

"""Scores with one number a channel: (B, C, Tq, Tv), channels second as heads are."""

from __future__ import annotations

import math

import keras
from keras import ops

from keras_attention.precision import at_least_float32, wide_range
from keras_attention.scores.base import Score, positive_int

__all__ = [
    "ChannelAdditiveScore",
    "ChannelBilinearScore",
    "ChannelScore",
    "channel_additive",
    "channel_bilinear",
]


def channel_bilinear(query, key, kernel):
    """`tanh(qᵀ W_c k)` for channels c = 1 … C.

    The bilinear form of the neural tensor network (Socher et al., 2013, equation 1), a slice a channel.

    Args:
        query: float (B, Tq, Dq).
        key: float (B, Tv, Dk).
        kernel: float (C, Dk, Dq), `W_cᵀ`.

    Returns:
        score (B, C, Tq, Tv), in [−1, 1].
    """
    return _bilinear(query, _bilinear_key(key, kernel))


def channel_additive(projected_query, projected_key, kernel, activation=ops.elu):
    """`Wᵀ σ(q' + k')`, a score for each column of W (Shen et al., 2018, section 3.1).

    Args:
        projected_query, projected_key: float (B, Tq, U) and (B, Tv, U).
        kernel: float (U, C), `W`.
        activation: function, σ.

    Returns:
        score (B, C, Tq, Tv), in at least float32, for σ may have no bound.
    """
    hidden = activation(ops.expand_dims(projected_query, 2) + ops.expand_dims(projected_key, 1))  # (B, Tq, Tv, U)
    return ops.einsum("bqvu,uc->bcqv", at_least_float32(hidden), at_least_float32(kernel))


def _bilinear_key(key, kernel):
    """`W_c k`: key (B, Tv, Dk), kernel (C, Dk, Dq) → (B, Tv, C, Dq)."""
    return ops.einsum("bvk,ckd->bvcd", key, kernel)


def _bilinear(query, prepared_key):
    query, prepared_key = wide_range(query, prepared_key)
    return ops.tanh(ops.einsum("bqd,bvcd->bcqv", query, prepared_key))


class ChannelScore(Score):
    """Base of the scores that give (B, C, Tq, Tv).

    Args:
        channels: int > 0. C.
    """

    per_channel = True

    def __init__(self, channels, **kwargs):
        super().__init__(**kwargs)
        self.channels = positive_int("channels", channels)

    def compute_output_shape(self, input_shape):
        query_shape, key_shape = input_shape
        return (query_shape[0], self.channels, query_shape[1], key_shape[1])

    def get_config(self):
        return {**super().get_config(), "channels": self.channels}


@keras.saving.register_keras_serializable("keras_attention")
class ChannelBilinearScore(ChannelScore):
    """`tanh(qᵀ W_c k)`: one matrix a channel. See `channel_bilinear`."""

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        limit = math.sqrt(6 / (query_shape[-1] + key_shape[-1]))  # Glorot's, of each matrix alone
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.channels, key_shape[-1], query_shape[-1]),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )
        self.built = True

    def prepare_key(self, key):
        return _bilinear_key(key, ops.cast(self.kernel, key.dtype))

    def score(self, query, prepared_key):
        return _bilinear(query, prepared_key)


@keras.saving.register_keras_serializable("keras_attention")
class ChannelAdditiveScore(ChannelScore):
    """`Wᵀ σ(W₁ k + W₂ q + b₁)`: a network of one hidden layer with C outputs. See `channel_additive`.

    Shen et al., 2018 (arXiv 1709.04696), section 3.1. Differs from the paper: no bias b on the output, which softmax
    over the keys would cancel.

    Args:
        channels: int > 0. C.
        units: int > 0. Width of the hidden layer.
        activation: str or function, σ; the paper trains with "elu".
    """

    def __init__(self, channels, units, activation="elu", **kwargs):
        super().__init__(channels, **kwargs)
        self.units = positive_int("units", units)
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        self.query_kernel = self.add_weight(name="query_kernel", shape=(query_shape[-1], self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(key_shape[-1], self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.output_kernel = self.add_weight(name="output_kernel", shape=(self.units, self.channels))
        self.built = True

    def prepare_key(self, key):
        return ops.matmul(key, ops.cast(self.key_kernel, key.dtype)) + ops.cast(self.bias, key.dtype)

    def score(self, query, prepared_key):
        projected_query = ops.matmul(query, ops.cast(self.query_kernel, query.dtype))
        return channel_additive(
            projected_query, prepared_key, ops.cast(self.output_kernel, query.dtype), self.activation
        )

    def get_config(self):
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "units": self.units, "activation": activation}

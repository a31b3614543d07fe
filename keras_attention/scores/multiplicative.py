"""Scores that multiply a query with a key: dot, scaled dot, general, cosine."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.precision import at_least_float32, wide_range
from keras_attention.scores.base import Score

__all__ = ["CosineScore", "DotScore", "GeneralScore", "ScaledDotScore", "cosine", "dot", "general", "scaled_dot"]


def dot(query, key):
    """`q · k` (Luong et al., 2015, section 3.1). query (B, Tq, D), key (B, Tv, D) → score (B, Tq, Tv)."""
    query, key = wide_range(query, key)
    if query.shape[1] == 1:  # no product turns the keys then, nor their gradient
        return ops.transpose(ops.matmul(key, ops.reshape(query, (-1, query.shape[-1], 1))), (0, 2, 1))
    return ops.matmul(query, ops.transpose(key, (0, 2, 1)))


def scaled_dot(query, key):
    """`q · k / √D` (Vaswani et al., 2017, equation 1). query (B, Tq, D), key (B, Tv, D) → score (B, Tq, Tv)."""
    return dot(query, key) * (query.shape[-1] ** -0.5)


def general(query, key, kernel):
    """`q · W k` (Luong et al., 2015, section 3.1).

    query (B, Tq, Dq), key (B, Tv, Dk), kernel (Dk, Dq) → score (B, Tq, Tv).
    """
    return dot(query, ops.matmul(key, kernel))


def cosine(query, key):
    """`cos(q, k) = q · k / (‖q‖ ‖k‖)` (Graves et al., 2014, equation 6); 0 where either is 0.

    query (B, Tq, D), key (B, Tv, D) → score (B, Tq, Tv), in [−1, 1].
    """
    return dot(unit_length(query), unit_length(key))


def unit_length(vectors):
    """`x / ‖x‖` over the last axis, computed in at least float32 as squares pass the range of float16; 0 stays 0."""
    wide = at_least_float32(vectors)
    square = ops.sum(ops.square(wide), axis=-1, keepdims=True)
    is_zero = square == 0
    # The root of 0 has no gradient: it is taken of 1 there.
    length = ops.sqrt(ops.where(is_zero, ops.ones_like(square), square))
    return ops.cast(wide / length, vectors.dtype)


@keras.saving.register_keras_serializable("keras_attention")
class DotScore(Score):
    """`q · k`: no weights; query and key must be of the same width. See `dot`."""

    key_work = "little"

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        if query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"The score {type(self).__name__} needs queries and keys of the same width. "
                f"Received query {tuple(query_shape)}, key {tuple(key_shape)}. "
                f"Project one of them, or use score='general'."
            )
        self.built = True

    def score(self, query, prepared_key):
        return dot(query, prepared_key)


@keras.saving.register_keras_serializable("keras_attention")
class ScaledDotScore(DotScore):
    """`q · k / √D`: no weights; query and key must be of the same width. See `scaled_dot`."""

    def score(self, query, prepared_key):
        return scaled_dot(query, prepared_key)


@keras.saving.register_keras_serializable("keras_attention")
class GeneralScore(Score):
    """`q · W k`: one matrix from the keys' space to the queries'. See `general`."""

    key_work = "little"  # the product can move to the query

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        self.kernel = self.add_weight(
            name="kernel", shape=(key_shape[-1], query_shape[-1]), initializer="glorot_uniform"
        )
        self.built = True

    def prepare_key(self, key):
        return ops.matmul(key, ops.cast(self.kernel, key.dtype))

    def score(self, query, prepared_key):
        return dot(query, prepared_key)

    def score_raw(self, query, key):
        """`(Wᵀ q) · k`."""
        return dot(ops.matmul(query, ops.transpose(ops.cast(self.kernel, query.dtype))), key)


@keras.saving.register_keras_serializable("keras_attention")
class CosineScore(DotScore):
    """`cos(q, k)`: no weights; query and key must be of the same width. See `cosine`."""

    def prepare_key(self, key):
        return unit_length(key)

    def score(self, query, prepared_key):
        return dot(unit_length(query), prepared_key)

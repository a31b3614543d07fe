"""Scores from a network of one hidden layer over query and key: additive (concat) and MLP."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.scores.base import Score, positive_int
from keras_attention.scores.recomputed import weighted_tanh

__all__ = ["AdditiveScore", "MLPScore", "additive", "mlp"]


def additive(projected_query, projected_key, scale):
    """`v · tanh(q' + k')` (Bahdanau et al., 2015, appendix A.1.2).

    The hidden layer of large inputs, (B, Tq, Tv, U), is never whole in memory: it is made in steps, and made again for
    the gradient.

    Args:
        projected_query: float (B, Tq, U), `W q`.
        projected_key: float (B, Tv, U), `U k`.
        scale: float (U,), `v`.

    Returns:
        score (B, Tq, Tv).
    """
    return weighted_tanh(projected_query, projected_key, scale)


def mlp(projected_query, projected_key, scale, bias):
    """`σ(w₂ · tanh(q' + k') + b₂)`, a score in (0, 1).

    Args:
        projected_query, projected_key: float (B, Tq, U) and (B, Tv, U), the two halves of `W₁ [q; k] + b₁`.
        scale: float (U,), `w₂`.
        bias: float scalar, `b₂`.

    Returns:
        score (B, Tq, Tv).
    """
    return ops.sigmoid(additive(projected_query, projected_key, scale) + bias)


@keras.saving.register_keras_serializable("keras_attention")
class AdditiveScore(Score):
    """`v · tanh(W q + U k)`, the same as Luong's concat `v · tanh(W [q; k])`: a network of one hidden layer.

    See `additive`.

    Args:
        units: int > 0. Width of the hidden layer.
        use_bias: bool. Adds a bias before the tanh (in neither paper).
        normalize: bool. Weight normalisation of v: `g · v / ‖v‖` with g starting at √(1/U) (Salimans and Kingma, 2016;
            used so by Raffel et al., 2017, equation 16).
    """

    key_work = "product"

    def __init__(self, units, use_bias=False, normalize=False, **kwargs):
        super().__init__(**kwargs)
        self.units = positive_int("units", units)
        self.use_bias = use_bias
        self.normalize = normalize

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        self.query_kernel = self.add_weight(name="query_kernel", shape=(query_shape[-1], self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(key_shape[-1], self.units))
        self.scale = self.add_weight(
            name="scale", shape=(self.units,), initializer=keras.initializers.RandomUniform(-0.1, 0.1)
        )
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        if self.normalize:
            start = keras.initializers.Constant(self.units**-0.5)
            self.gain = self.add_weight(name="gain", shape=(), initializer=start)
        self.built = True

    def prepare_key(self, key):
        projected = ops.matmul(key, ops.cast(self.key_kernel, key.dtype))
        return projected + ops.cast(self.bias, key.dtype) if self.use_bias else projected

    def score(self, query, prepared_key):
        projected_query = ops.matmul(query, ops.cast(self.query_kernel, query.dtype))
        scale = ops.convert_to_tensor(self.scale)
        if self.normalize:
            scale = self.gain * scale / ops.sqrt(ops.sum(ops.square(scale)))
        return additive(projected_query, prepared_key, ops.cast(scale, query.dtype))

    def get_config(self):
        return {**super().get_config(), "units": self.units, "use_bias": self.use_bias, "normalize": self.normalize}


@keras.saving.register_keras_serializable("keras_attention")
class MLPScore(Score):
    """`σ(w₂ · tanh(W₁ [q; k] + b₁) + b₂)`: a network of one hidden layer whose output is a share in (0, 1).

    See `mlp`. Softmax over such scores stays soft: no weight is more than e times another.

    Args:
        units: int > 0. Width of the hidden layer.
    """

    key_work = "product"

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = positive_int("units", units)

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        self.query_kernel = self.add_weight(name="query_kernel", shape=(query_shape[-1], self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(key_shape[-1], self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.scale = self.add_weight(
            name="scale", shape=(self.units,), initializer=keras.initializers.RandomUniform(-0.1, 0.1)
        )
        self.output_bias = self.add_weight(name="output_bias", shape=(), initializer="zeros")
        self.built = True

    def prepare_key(self, key):
        return ops.matmul(key, ops.cast(self.key_kernel, key.dtype)) + ops.cast(self.bias, key.dtype)

    def score(self, query, prepared_key):
        dtype = query.dtype
        projected_query = ops.matmul(query, ops.cast(self.query_kernel, dtype))
        return mlp(projected_query, prepared_key, ops.cast(self.scale, dtype), ops.cast(self.output_bias, dtype))

    def get_config(self):
        return {**super().get_config(), "units": self.units}

"""Scores: how well each key answers a query, `e = score(q, k)`.

Each score comes as a plain function of tensors and as a layer that holds its weights, where it has any. A layer splits
its work in two, so that a decoder pays for the keys once: `prepare_key(key)` does what depends on the keys alone,
`score(query, prepared_key)` the rest.
"""

from __future__ import annotations

import difflib

import keras
from keras import backend, ops

__all__ = [
    "AdditiveScore",
    "DotScore",
    "GeneralScore",
    "ScaledDotScore",
    "Score",
    "additive",
    "dot",
    "general",
    "get",
    "scaled_dot",
]


def dot(query, key):
    """`q · k` (Luong et al., 2015, equation 8). query (B, Tq, D), key (B, Tv, D) → score (B, Tq, Tv).

    float16 ends at 65504, and one product past it would be a row of NaN: there the score is computed in float32.
    """
    if backend.standardize_dtype(query.dtype) == "float16":
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    return ops.matmul(query, ops.transpose(key, (0, 2, 1)))


def scaled_dot(query, key):
    """`q · k / √D` (Vaswani et al., 2017, equation 1). query (B, Tq, D), key (B, Tv, D) → score (B, Tq, Tv)."""
    return dot(query, key) * (query.shape[-1] ** -0.5)


def general(query, key, kernel):
    """`q · W k` (Luong et al., 2015, equation 8).

    query (B, Tq, Dq), key (B, Tv, Dk), kernel (Dk, Dq) → score (B, Tq, Tv).
    """
    return dot(query, ops.matmul(key, kernel))


def additive(projected_query, projected_key, scale):
    """`v · tanh(q' + k')` (Bahdanau et al., 2015, appendix A.1.2).

    Args:
        projected_query: float (B, Tq, U), `W q`.
        projected_key: float (B, Tv, U), `U k`.
        scale: float (U,), `v`.

    Returns:
        score (B, Tq, Tv).
    """
    hidden = ops.tanh(ops.expand_dims(projected_query, 2) + ops.expand_dims(projected_key, 1))  # (B, Tq, Tv, U)
    return ops.einsum("bqvu,u->bqv", hidden, scale)


class Score(keras.layers.Layer):
    """Base of the score layers: `call([query, key])` is `score(query, prepare_key(key))`.

    A subclass gives `score`, and `prepare_key` where part of its work depends on the keys alone. `build` takes the two
    shapes.
    """

    def call(self, inputs):
        query, key = inputs
        return self.score(query, self.prepare_key(key))

    def prepare_key(self, key):
        """What depends on the keys alone, (B, Tv, …); the keys themselves by default."""
        return key

    def score(self, query, prepared_key):
        """Scores each query with each key: query (B, Tq, Dq), prepared key (B, Tv, …) → score (B, Tq, Tv)."""
        raise TypeError(f"{type(self).__name__} defines no `score(query, prepared_key)`. Every subclass of Score must.")

    def compute_output_shape(self, input_shape):
        query_shape, key_shape = input_shape
        return (query_shape[0], query_shape[1], key_shape[1])


@keras.saving.register_keras_serializable("keras_attention")
class DotScore(Score):
    """`q · k`: no weights; query and key must be of the same width. See `dot`."""

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


_BY_NAME = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "general": GeneralScore,
    "additive": AdditiveScore,
    "concat": AdditiveScore,
}


def get(score, *, units=None, dtype=None, **options) -> Score:
    """A score layer, from its name ("dot", "scaled_dot", "general", "additive", "concat") or as it is given.

    Args:
        score: str or `Score`.
        units: int. Width of the hidden layer, for the scores that have one.
        dtype: dtype or policy of the layer.
        options: further arguments of that score.

    Raises:
        ValueError: the name is unknown, or `units` is missing where the score needs it.
        TypeError: `score` is neither a name nor a `Score`.
    """
    if isinstance(score, Score):
        if units is not None:
            raise ValueError(f"A score that is a layer has its own width. Received units={units!r}. Leave it out.")
        return score
    if not isinstance(score, str):
        raise TypeError(f"`score` must be a name or a keras_attention.scores.Score. Received {score!r}.")
    if score not in _BY_NAME:
        near = difflib.get_close_matches(score, _BY_NAME, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown score {score!r}. Expected one of {', '.join(sorted(_BY_NAME))}.{hint}")
    kind = _BY_NAME[score]
    if kind is AdditiveScore:
        if units is None:
            raise ValueError(f"The score {score!r} has a hidden layer: give its width as `units`, an int > 0.")
        options["units"] = units
    elif units is not None:
        raise ValueError(
            f"The score {score!r} has no hidden layer, so no `units`. Received units={units!r}. Leave it out."
        )
    return kind(name=score, dtype=dtype, **options)


def positive_int(name: str, value) -> int:
    """`value` where it is an int > 0; else a ValueError that says so."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be an int > 0. Received {value!r}.")
    return value

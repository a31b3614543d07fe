"""`CoverageAttention`: additive attention that knows where it looked before."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys
from keras_attention.layers.query_loop import check_state, query_by_query
from keras_attention.precision import at_least_float32
from keras_attention.scores.base import positive_int

__all__ = ["CoverageAttention", "coverage_loss"]


def coverage_loss(weights):
    """How much each step looks again at what was looked at before: `Σ_i min(a_i, c_i)`, c the weights so far summed.

    See et al., 2017 (arXiv 1704.04368), equation 12. weights (B, Tq, Tv) → loss (B, Tq), at most 1 each.
    """
    weights = ops.convert_to_tensor(weights)
    coverage = ops.cumsum(weights, axis=1) - weights
    return ops.sum(ops.minimum(weights, coverage), axis=-1)


@keras.saving.register_keras_serializable("keras_attention")
class CoverageAttention(AttentionLayer):
    """Additive attention whose score sees the coverage of a key: the sum of the weights it got so far.

    See et al., 2017 (arXiv 1704.04368), equations 10 and 11: `e = v · tanh(W_h k + W_s q + w_c c + b)`, c = 0 before
    the first query and the sum of the weights of all queries before it at each other.
    Differs from the paper: none. A masked query covers nothing.

    The queries are read one after the other, in order, as each depends on the weights before it; on TensorFlow such a
    loop has no gradient under XLA, so that `jit_compile="auto"` leaves it out. `attend` carries the coverage, float
    (B, Tv), in its state.

    Args:
        units: int > 0. Width U of the hidden layer.
        loss_weight: float ≥ 0. Where > 0, a call adds this times the mean `coverage_loss` of the queries that see
            something to the losses of the layer; the paper's λ. In a loop over `attend`, use `coverage_loss`.
        dropout: float in [0, 1). Share of weights dropped in training; the coverage never carries it.
        seed: int. Seed of the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.


    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout. Masked
        weights are exactly 0; a row with nothing to keep, or whose query is masked, is all 0.

    Raises:
        ValueError: `units` < 1, `loss_weight` < 0, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = CoverageAttention(units=16)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(self, units, loss_weight=0.0, dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.units = positive_int("units", units)
        if isinstance(loss_weight, bool) or not isinstance(loss_weight, (int, float)) or loss_weight < 0:
            raise ValueError(f"`loss_weight` must be a number >= 0. Received {loss_weight!r}.")
        self.loss_weight = float(loss_weight)
        self.supports_jit = keras.backend.backend() != "tensorflow"

    def build_scorer(self, query_shape, value_shape, key_shape):
        small = keras.initializers.RandomUniform(-0.1, 0.1)
        self.query_kernel = self.add_weight(name="query_kernel", shape=(query_shape[-1], self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(key_shape[-1], self.units))
        self.coverage_kernel = self.add_weight(name="coverage_kernel", shape=(self.units,), initializer=small)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.scale = self.add_weight(name="scale", shape=(self.units,), initializer=small)

    def prepare_key(self, key):
        return ops.matmul(key, ops.cast(self.key_kernel, key.dtype)) + ops.cast(self.bias, key.dtype)

    def initial_state(self, prepared: PreparedKeys):
        """The coverage before the first query: 0, float (B, Tv)."""
        return at_least_float32(ops.zeros_like(prepared.key[..., 0]))

    def align_step(self, query, prepared: PreparedKeys, state, training=None):
        check_state(self, state)
        weights = self.step(self.project(query), prepared.key, state, prepared.mask)
        return weights, state + weights

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Weights, query by query: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv)."""

        def step(one, keep, coverage):
            weights = self.step(one, prepared.key, coverage, keep)
            return weights, coverage + weights

        queries, length = self.project(query), ops.shape(prepared.value)[1]
        weights = query_by_query(step, self.initial_state(prepared), queries, mask, length)
        if self.loss_weight > 0:
            seeing = ops.sum(ops.cast(ops.any(weights > 0, axis=-1), weights.dtype))
            self.add_loss(self.loss_weight * ops.sum(coverage_loss(weights)) / ops.maximum(seeing, 1))
        return weights

    def project(self, query):
        return ops.matmul(query, ops.cast(self.query_kernel, query.dtype))

    def step(self, projected_query, prepared_key, coverage, mask):
        """One query: projected query (B, U), prepared key (B, Tv, U), coverage and mask (B, Tv) → weights (B, Tv)."""
        dtype = prepared_key.dtype
        covered = ops.expand_dims(ops.cast(coverage, dtype), -1) * ops.cast(self.coverage_kernel, dtype)  # (B, Tv, U)
        hidden = ops.tanh(prepared_key + ops.expand_dims(projected_query, 1) + covered)
        score = ops.einsum("bvu,u->bv", hidden, ops.cast(self.scale, dtype))
        return alignments.softmax(score, mask)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "loss_weight": self.loss_weight}

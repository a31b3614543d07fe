"""`MonotonicAttention`: attention that only moves forward."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.query_loop import check_state, query_by_query
from keras_attention.layers.soft_attention import ScoredAttention
from keras_attention.precision import at_least_float32

__all__ = ["MonotonicAttention"]

INFERENCE = ("hard", "expected")


@keras.saving.register_keras_serializable("keras_attention")
class MonotonicAttention(ScoredAttention):
    """Monotonic attention: each query goes on from where the one before stopped, and stops at the first place it likes.

    Raffel et al., 2017 (arXiv 1704.00784), sections 2.2 and 2.3. At a place j query i stops with the probability
    `p = σ(e + r)`, e its score, r a trained scalar, or else goes on to the next; it never goes back. In training the
    weights are the probabilities of stopping at each place, over all ways to get there:
    `α_i,j = p_i,j · q_i,j`, `q_i,j = (1 − p_i,j−1) q_i,j−1 + α_i−1,j`, where `α_0` is 1 at the first kept place.
    Gaussian noise on the scores pushes p towards 0 and 1 (section 2.5). Without training a query stops where
    `p > 1/2`: one 1 in its row. A query that passes the end reads nothing, and so do all after it.
    Differs from the paper: q is computed in blocks of 16 places, exactly, with neither its division, which fails where
    p is near 1, nor a step for each place. Masked places are passed by, as if they were not there; a query that is
    masked, or sees nothing, leaves the place as it was.

    With `score=keras_attention.scores.AdditiveScore(units, use_bias=True, normalize=True)` the score is the paper's,
    equation 16. "location_aware" is taken too: it sees the weights of the query before.

    The queries are read one after the other; on TensorFlow such a loop has no gradient under XLA, so that
    `jit_compile="auto"` leaves it out. `attend` carries (the weights of the query before, the memory of the score) in
    its state; the first are float (B, Tv), the other is () of most scores.

    Args:
        score: str or `keras_attention.scores.Score`, as of `LuongAttention`, or "location_aware".
        units: int > 0. Width of the hidden layer of the score, where it has one.
        score_bias: float. r at the start. Where it is below 0, a query begins by passing most places; the longer the
            values, the lower it wants to be.
        noise: float ≥ 0. Standard deviation of the noise on the scores in training.
        inference: "hard" or "expected", the weights without training.
        dropout: float in [0, 1). Share of weights dropped in training; the next query never sees it.
        seed: int. Seed of the noise and the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Expected weights, with noise, and dropout.
        use_causal_mask: bool. Query t sees values 0 … t only: one that stops at none of them has passed the end.

    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout: rows sum to
        at most 1, and without training one 1 a row or none. Masked weights are exactly 0; a row with nothing to keep,
        or whose query is masked, is all 0.

    Raises:
        ValueError: an unknown score or `inference`, `units` missing or not wanted, `noise` < 0, a wrong rank, or
            lengths or batches that differ.
        TypeError: a mask that is not bool, or a `score` that is neither a name nor a `Score`.

    Example:
    >>> layer = MonotonicAttention(units=16, score_bias=-1.0)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    takes_memory = True

    def __init__(
        self,
        score="additive",
        units=None,
        score_bias=0.0,
        noise=1.0,
        inference="hard",
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        if not _is_number(score_bias):
            raise ValueError(f"`score_bias` must be a number. Received {score_bias!r}.")
        if not _is_number(noise) or noise < 0:
            raise ValueError(f"`noise` must be a number >= 0. Received {noise!r}.")
        if inference not in INFERENCE:
            raise ValueError(f"`inference` must be one of {', '.join(INFERENCE)}. Received {inference!r}.")
        self.set_score(score, units)
        self.start_bias, self.noise, self.inference = float(score_bias), float(noise), inference
        self.supports_jit = keras.backend.backend() != "tensorflow"
        if noise > 0 and dropout == 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build_scorer(self, query_shape, value_shape, key_shape):
        super().build_scorer(query_shape, value_shape, key_shape)
        start = keras.initializers.Constant(self.start_bias)
        self.score_bias = self.add_weight(name="score_bias", shape=(), initializer=start, autocast=False)

    def initial_state(self, prepared: PreparedKeys):
        """Before the first query: 1 at the first kept place, float (B, Tv), and the memory of the score."""
        dtype = keras.backend.result_type(keras.backend.standardize_dtype(prepared.value.dtype), "float32")
        return ops.cast(_first(prepared.mask), dtype), self.score.initial_memory(prepared.key)

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Weights, query by query: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv)."""

        def step(one, keep, state):
            return self.step(one, prepared.key, keep, state, training)

        queries = self.prepare_query(query, prepared, training)
        return query_by_query(step, self.initial_state(prepared), queries, mask, ops.shape(prepared.value)[1])

    def align_step(self, query, prepared: PreparedKeys, state, training=None):
        check_state(self, state)
        one = ops.squeeze(self.prepare_query(ops.expand_dims(query, 1), prepared, training), 1)
        return self.step(one, prepared.key, prepared.mask, state, training)

    def prepare_query(self, query, prepared: PreparedKeys, training):
        """What the loop takes of the queries, (B, Tq, …): what the score takes, and in training the noise behind it."""
        queries = self.score.prepare_query(query, prepared.key)
        if not self.is_noisy(training):
            return queries
        shape = (*ops.shape(query)[:2], ops.shape(prepared.value)[1])
        noise = keras.random.normal(shape, stddev=self.noise, dtype="float32", seed=self.seed_generator)
        return ops.concatenate([queries, ops.cast(noise, queries.dtype)], axis=-1)

    def step(self, one, prepared_key, keep, state, training=None):
        """One query: what `prepare_query` made of it, (B, …), which places it may see, state → weights, state."""
        previous, memory = state
        noise = 0.0
        if self.is_noisy(training):
            length = ops.shape(keep)[-1]
            one, noise = one[:, :-length], at_least_float32(one[:, -length:])
        score = at_least_float32(self.score.score_step(one, prepared_key, memory)) + noise
        score = score + ops.cast(self.score_bias, score.dtype)
        align = expected_alignment if training or self.inference == "expected" else hard_alignment
        weights = align(score, keep, previous)
        return weights, (weights, self.score.remember(memory, weights))

    def is_noisy(self, training):
        return bool(training) and self.noise > 0

    def get_config(self):
        return {
            **super().get_config(),
            **self.score_config(),
            "score_bias": self.start_bias,
            "noise": self.noise,
            "inference": self.inference,
        }


def hard_alignment(score, keep, previous):
    """1 at the first kept place with `σ(e) > 1/2`, from the place of the query before on.

    Raffel et al., 2017, section 2.2. score (B, Tv), keep bool (B, Tv), previous weights (B, Tv) → weights (B, Tv). It
    has no gradient.
    """
    reached = ops.cumsum(previous, axis=-1) > 0
    return ops.cast(_first(ops.logical_and(ops.logical_and(keep, reached), score > 0)), score.dtype)


def expected_alignment(score, keep, previous):
    """The probability of stopping at each place, `α_j = p_j q_j`, p = σ(e), q that of getting there.

    Raffel et al., 2017, section 2.3. score (B, Tv), keep bool (B, Tv), previous weights (B, Tv) → weights (B, Tv).
    """
    nothing = ops.zeros_like(score)
    stops = ops.where(keep, ops.sigmoid(score), nothing)
    # exp(−80) is as good as 0 here, and has a logarithm in float32.
    passes = ops.where(keep, ops.log(ops.sigmoid(-ops.minimum(score, 80.0))), nothing)
    return stops * _arrivals(passes, previous)


_BLOCK = 16


def _arrivals(passes, starts):
    """`q_j = exp(passes_j−1) q_j−1 + starts_j`: log probabilities and probabilities (B, Tv) → (B, Tv).

    First within blocks of places, then from block to block, so that the products have 16 Tv + (Tv / 16)² factors, not
    Tv². Every factor is a probability: nothing is divided and nothing overflows.
    """
    batch, length = ops.shape(starts)
    blocks = (length + _BLOCK - 1) // _BLOCK
    padding = ops.zeros((batch, blocks * _BLOCK - length), starts.dtype)
    shape = (batch, blocks, _BLOCK)
    enters = ops.concatenate([ops.zeros_like(passes[:, :1]), passes[:, :-1], padding], axis=1)
    enters = ops.reshape(enters, shape)  # (B, N, 16): of getting to a place from the one before
    within = _recur(enters, ops.reshape(ops.concatenate([starts, padding], axis=1), shape))
    ends = _recur(ops.sum(enters, axis=-1), within[..., -1])  # (B, N): of getting to the last place of each block
    before = ops.concatenate([ops.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
    arrivals = within + ops.expand_dims(before, -1) * ops.exp(ops.cumsum(enters, axis=-1))
    return ops.reshape(arrivals, (batch, blocks * _BLOCK))[:, :length]


def _recur(enters, starts):
    """`q_j = exp(enters_j) q_j−1 + starts_j` over the last axis, each pair of places by itself: (…, n) → (…, n)."""
    places = ops.arange(ops.shape(starts)[-1])
    earlier, later = ops.expand_dims(places, 1), ops.expand_dims(places, 0)
    entered = ops.where(earlier < later, ops.expand_dims(enters, -2), 0.0)  # (…, n, n)
    ways = ops.where(earlier <= later, ops.exp(ops.cumsum(entered, axis=-1)), 0.0)
    return ops.sum(ops.expand_dims(starts, -1) * ways, axis=-2)  # no matmul: GPUs round its factors


def _first(places):
    """Of bools the first True of each row."""
    return ops.logical_and(places, ops.cumsum(ops.cast(places, "int32"), axis=-1) == 1)


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)

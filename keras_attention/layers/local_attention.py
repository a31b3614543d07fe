"""`LocalAttention`: attention to a window of the values."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.attention_layer import PreparedKeys, prepared_keys
from keras_attention.layers.checks import check_step, checked_call
from keras_attention.layers.soft_attention import ScoredAttention
from keras_attention.precision import at_least_float32
from keras_attention.scores.base import positive_int

__all__ = ["LocalAttention"]

POSITIONS = ("monotonic", "predictive")


@keras.saving.register_keras_serializable("keras_attention")
class LocalAttention(ScoredAttention):
    """Local attention: each query looks at the 2D + 1 values about one position p.

    Luong et al., 2015 (arXiv 1508.04025), section 3.2. Softmax runs over the integer positions s in [p − D, p + D].
    "monotonic", the paper's local-m: `p = t`, the number of the query, or the last position where t ≥ S.
    "predictive", its local-p: `p = S · sigmoid(v · tanh(W q))`, and the weights of the softmax are multiplied by
    `exp(−(s − p)² / 2σ²)`, σ = D / 2, and not brought back to a sum of 1.
    Differs from the paper: positions count from 0. S is each row's own length (up to its last kept value), so that
    padding changes nothing.

    Only the window is computed: time and memory grow with Tq · (2D + 1), not with Tq · Tv, unless the weights are
    asked for. Scores with a product for each key (additive, MLP, and any of the user's own) take it for all Tv keys,
    once; additive and MLP for those in the windows where that is known to be less, Tq · (2D + 1) < Tv. `attend` counts
    the steps in its state, int32 (B,).

    Args:
        radius: int > 0, positions. D.
        position: "predictive" or "monotonic".
        score: str or `keras_attention.scores.Score`, as of `LuongAttention`.
        units: int > 0. Width of the hidden layer of the score, where it has one.
        position_units: int > 0. Width of W in local-p; default Dq.
        dropout: float in [0, 1). Share of weights dropped in training.
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
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout. Weights
        outside the window or the masks are exactly 0; rows sum to 1 (local-m) or to at most 1 (local-p); a row with
        nothing to keep, or whose query is masked, is all 0.

    Raises:
        ValueError: `radius` < 1, an unknown `position` or score, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool, or a `score` that is neither a name nor a `Score`.

    Example:
    >>> layer = LocalAttention(radius=2)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 50, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 50]))
    """

    def __init__(
        self,
        radius,
        position="predictive",
        score="general",
        units=None,
        position_units=None,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        if position not in POSITIONS:
            raise ValueError(f"`position` must be one of {', '.join(POSITIONS)}. Received {position!r}.")
        if position_units is not None and position == "monotonic":
            raise ValueError(
                f"`position_units` belongs to position='predictive'. Received {position_units!r}. Leave it out."
            )
        self.radius = positive_int("radius", radius)
        self.position = position
        self.set_score(score, units)
        self.position_units = None if position_units is None else positive_int("position_units", position_units)

    def build_scorer(self, query_shape, value_shape, key_shape):
        super().build_scorer(query_shape, value_shape, key_shape)
        if self.position == "predictive":
            units = self.position_units or query_shape[-1]
            # Positions need float32 in any precision: half of it cannot even count to 3000.
            self.position_kernel = self.add_weight(
                name="position_kernel", shape=(query_shape[-1], units), autocast=False
            )
            self.position_scale = self.add_weight(
                name="position_scale",
                shape=(units,),
                autocast=False,
                initializer=keras.initializers.RandomUniform(-0.1, 0.1),
            )

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        query, value, key, query_mask, value_mask = checked_call(inputs, mask, attention_mask)
        raw = self.scores_raw or (self.score.key_work == "product" and self.few_in_windows(query, value))
        prepared = self.prepare(value, key, value_mask, raw)
        steps = ops.expand_dims(ops.arange(ops.shape(query)[1], dtype="int32"), 0)  # (1, Tq)
        centre, places = self.window(query, value, value_mask, steps)
        keep = self.kept(centre, places, value, value_mask)
        if query_mask is not None:
            keep = ops.logical_and(keep, ops.expand_dims(query_mask, -1))
        if use_causal_mask:
            keep = ops.logical_and(keep, places <= ops.expand_dims(steps, -1))
        if attention_mask is not None:
            shape = (*ops.shape(query)[:2], ops.shape(value)[1])
            pairs = ops.broadcast_to(attention_mask, shape)
            keep = ops.logical_and(keep, ops.take_along_axis(pairs, _inside(places, shape[2]), axis=-1))
        weights, context = self.read_window(query, prepared, centre, places, keep, raw, training)
        return (context, _spread(weights, places, ops.shape(value)[1])) if return_attention_scores else context

    @property
    def scores_raw(self):
        """Whether the score takes the keys of a window as they are, without preparing all keys first."""
        return self.score.key_work == "little"

    def few_in_windows(self, query, value):
        """Whether the windows of all queries hold fewer keys than there are; False where lengths are not known."""
        queries, values = query.shape[1], value.shape[1]
        return None not in (queries, values) and queries * (2 * self.radius + 1) < values

    def prepare(self, value, key=None, mask=None, raw=None) -> PreparedKeys:
        """What depends on the keys alone; see `AttentionLayer.prepare`.

        Args:
            raw: bool. Leaves the keys as they are; default where the score takes them so.
        """
        raw = self.scores_raw if raw is None else raw
        return super().prepare(value, key, mask) if not raw else prepared_keys(value, key, mask)

    def initial_state(self, prepared: PreparedKeys):
        """The number of the next query, int32 (B,)."""
        return ops.zeros_like(prepared.mask[:, 0], dtype="int32")

    def attend(self, query, prepared: PreparedKeys, state, training=None):
        """One step of a decoder; see `AttentionLayer.attend`. Of the values only the window is read."""
        check_step(query)
        query = ops.expand_dims(query, 1)
        centre, places = self.window(query, prepared.value, prepared.mask, ops.expand_dims(state, 1))
        keep = self.kept(centre, places, prepared.value, prepared.mask)
        weights, context = self.read_window(query, prepared, centre, places, keep, self.scores_raw, training)
        spread = _spread(weights, places, ops.shape(prepared.value)[1])
        return ops.squeeze(context, 1), ops.squeeze(spread, 1), state + 1

    def window(self, query, value, value_mask, steps):
        """Where each query looks.

        Args:
            query: float (B, Tq, Dq).
            value: float (B, Tv, Dv).
            value_mask: bool (B, Tv), or None.
            steps: int32 (B, Tq) or (1, Tq), the number of each query.

        Returns:
            centre p, float (B, Tq, 1), and places, int32 (B, Tq, 2D + 1): all integers in [p − D, p + D], and where p
            is no integer one more. Some may lie outside of 0 … Tv − 1.
        """
        if value_mask is None:
            lengths = ops.full((1, 1), ops.shape(value)[1], dtype="int32")  # S
        else:
            ranks = ops.cumsum(ops.cast(ops.ones_like(value_mask), "int32"), axis=-1)
            lengths = ops.max(ops.where(value_mask, ranks, ops.zeros_like(ranks)), axis=-1, keepdims=True)  # (B, 1)
        if self.position == "monotonic":
            last = ops.maximum(lengths - 1, 0)
            centre = ops.cast(ops.minimum(ops.broadcast_to(steps, ops.shape(query)[:2]), last), "float32")
        else:
            wide = at_least_float32(query)
            hidden = ops.tanh(ops.matmul(wide, ops.cast(self.position_kernel, wide.dtype)))
            share = ops.sigmoid(ops.einsum("bqu,u->bq", hidden, ops.cast(self.position_scale, wide.dtype)))
            centre = ops.cast(lengths, wide.dtype) * share
        centre = ops.expand_dims(centre, -1)
        first = ops.cast(ops.ceil(ops.stop_gradient(centre) - self.radius), "int32")
        return centre, first + ops.arange(2 * self.radius + 1, dtype="int32")

    def kept(self, centre, places, value, value_mask):
        """Which places are within D of the centre, inside the values, and kept: bool (B, Tq, 2D + 1)."""
        near = alignments.fixed_window(ops.stop_gradient(centre), ops.cast(places, centre.dtype), self.radius)
        exist = ops.logical_and(places >= 0, places < ops.shape(value)[1])
        near = ops.logical_and(near, exist)
        return near if value_mask is None else ops.logical_and(near, _gather(value_mask, places))

    def read_window(self, query, prepared, centre, places, keep, raw, training):
        """Attends to the windows.

        Args:
            query: float (B, Tq, Dq).
            prepared: the keys, raw or as the score prepares them; the values.
            centre, places: what `window` returned.
            keep: what `kept` returned.
            raw: bool. Whether the keys are raw.
            training: bool. Applies dropout.

        Returns:
            weights of the windows (B, Tq, 2D + 1), in at least float32, and context (B, Tq, Dv).
        """
        values = _gather(prepared.value, places)  # (B, Tq, 2D + 1, Dv)
        keys = values if prepared.key is prepared.value else _gather(prepared.key, places)
        # Each query with its own keys: a batch of B · Tq with one query each.
        keys = ops.reshape(keys, (-1, *keys.shape[2:]))
        queries = ops.reshape(query, (-1, 1, query.shape[-1]))
        score = self.score.score_raw(queries, keys) if raw else self.score.score(queries, keys)
        weights = alignments.softmax(ops.reshape(score, ops.shape(places)), keep)
        if self.position == "predictive":
            bell = alignments.gaussian_window(centre, ops.cast(places, centre.dtype), self.radius / 2)
            weights = weights * ops.cast(bell, weights.dtype)
        read = ops.cast(self.drop(weights, training), values.dtype)
        return weights, ops.squeeze(ops.matmul(ops.expand_dims(read, 2), values), 2)

    def get_config(self):
        return {
            **super().get_config(),
            "radius": self.radius,
            "position": self.position,
            **self.score_config(),
            "position_units": self.position_units,
        }


def _inside(places, length):
    """Places moved into 0 … length − 1; what stood outside is masked elsewhere.

    Not `ops.clip`: of 0 … 6 the TFLite converter makes an activation that knows no integers.
    """
    return ops.minimum(ops.maximum(places, 0), length - 1)


def _gather(tensor, places):
    """What stands at the places: tensor (B, Tv, …), places (B, Tq, W) → (B, Tq, W, …)."""
    batch, length = ops.shape(tensor)[:2]
    rows = ops.reshape(ops.arange(batch, dtype="int32") * length, (-1, 1, 1))
    return ops.take(ops.reshape(tensor, (-1, *tensor.shape[2:])), rows + _inside(places, length), axis=0)


def _spread(weights, places, length):
    """Weights of the windows at their places among all: (B, Tq, W) → (B, Tq, Tv)."""
    width = places.shape[-1]
    within = ops.arange(length, dtype="int32") - places[..., :1]  # (B, Tq, Tv): which place of the window it is
    there = ops.logical_and(within >= 0, within < width)
    found = ops.take_along_axis(weights, _inside(within, width), axis=-1)
    return ops.where(there, found, ops.zeros_like(found))

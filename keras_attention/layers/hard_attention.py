"""`HardAttention`: looks at one place at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.row_noise import row_gumbel
from keras_attention.layers.soft_attention import ScoredAttention
from keras_attention.precision import at_least_float32
from keras_attention.scores.base import positive_int

__all__ = ["Draws", "HardAttention"]


def _categorical(score, mask, temperature, seed, noise):
    return alignments.categorical(score, mask, seed, noise)


_SAMPLES = {
    "categorical": _categorical,
    "gumbel_softmax": alignments.gumbel_softmax,
    "straight_through": alignments.straight_through_gumbel,
}


class Draws(NamedTuple):
    """What `HardAttention.draw` returns: M samples of each query, side by side.

    Attributes:
        context: float (B, M, Tq, Dv), the values at the places drawn.
        weights: float (B, M, Tq, Tv), one 1 a row, without gradient.
        log_probability: float (B, M, Tq), in nats, of the places drawn; it has the gradient.
        entropy: float (B, Tq), in nats, of what they were drawn from.
    """

    context: Any
    weights: Any
    log_probability: Any
    entropy: Any


class SampleState(NamedTuple):
    """What `attend` draws with, from step to step: int32 (B,) each."""

    seed: Any
    step: Any


@keras.saving.register_keras_serializable("keras_attention")
class HardAttention(ScoredAttention):
    """Hard attention: reads one value, the best scored; in training, one drawn at random.

    Xu et al., 2015 (arXiv 1502.03044), section 4.1: the place is drawn from `softmax(score(q, k))`.
    The score learns in one of two ways. "categorical" draws one place and passes no gradient: REINFORCE, the paper's,
    gives one with `draw` or `log_probability`, `reinforce_loss` and `MovingBaseline`. Or that of the Gumbel-softmax
    (Jang et al., 2017, arXiv 1611.01144, equation 2) at a temperature T: "straight_through" draws one place and passes
    the gradient of the soft sample (section 2.2), "gumbel_softmax" reads with the soft sample itself.
    Differs from the paper: without training, the place is the best one, not a random one; the score gets no gradient.

    T is a weight that is not trained, `layer.temperature`: assign to it, or give a schedule. Then `layer.step` counts
    the calls in training, and T is `schedule(step)` of the last; both are saved with the other weights.

    In a loop over `attend`, `initial_state(prepared, training=True)` gives each row a random seed, and counts as one
    call; the samples of a step come from the seed and the number of the step alone. `initial_state(prepared)` has none:
    then `attend` draws from the layer's own generator, which JAX allows outside its loops only; so does `dropout`.

    Args:
        score: str or `keras_attention.scores.Score`, as of `LuongAttention`.
        units: int > 0. Width of the hidden layer of the score, where it has one.
        sample: "straight_through", "gumbel_softmax" or "categorical", what is drawn in training.
        temperature: float > 0, T; or a function of the step with a config, such as `ExponentialTemperature` or one of
            `keras.optimizers.schedules`.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the samples and the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Draws samples, moves the schedule, and applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.


    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout: one 1 a row,
        or a soft sample that sums to 1. Masked weights are exactly 0; a row with nothing to keep, or whose query is
        masked, is all 0.

    Raises:
        ValueError: an unknown score or sample, `temperature` ≤ 0, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool, or a `score` that is neither a name nor a `Score`.

    Example:
    >>> layer = HardAttention(score="general")
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(
        self,
        score="general",
        units=None,
        sample="straight_through",
        temperature=1.0,
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        if sample not in _SAMPLES:
            raise ValueError(f"`sample` must be one of {', '.join(_SAMPLES)}. Received {sample!r}.")
        if isinstance(temperature, dict):
            temperature = keras.saving.deserialize_keras_object(temperature)
        self.schedule = temperature if callable(temperature) else None
        self.start_temperature = _positive(float(temperature(0)) if self.schedule else temperature)
        self.set_score(score, units)
        self.sample = sample
        if dropout == 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build_scorer(self, query_shape, value_shape, key_shape):
        super().build_scorer(query_shape, value_shape, key_shape)
        # Of a mirrored variable every replica writes the same: the first one's will do.
        state = {"shape": (), "trainable": False, "autocast": False, "aggregation": "only_first_replica"}
        start = keras.initializers.Constant(self.start_temperature)
        self.temperature = self.add_weight(name="temperature", initializer=start, **state)
        if self.schedule is not None:
            self.step = self.add_weight(name="step", initializer="zeros", dtype="int", **state)

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        if training:
            self.advance()
        return super().call(inputs, mask, attention_mask, return_attention_scores, training, use_causal_mask)

    def advance(self):
        """Sets the temperature of this step of training, and counts it; without a schedule, nothing."""
        if self.schedule is not None:
            step = ops.convert_to_tensor(self.step)
            self.temperature.assign(ops.cast(self.schedule(step), self.temperature.dtype))
            self.step.assign(step + 1)

    def align(self, query, prepared: PreparedKeys, mask, training=None, noise=None):
        """Weights: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv).

        `noise` of a Gumbel distribution, broadcastable to the weights, is drawn where it is not given.
        """
        score = at_least_float32(self.score.score(query, prepared.key))
        if not training:
            return alignments.argmax(score, mask)
        temperature = ops.convert_to_tensor(self.temperature)
        return _SAMPLES[self.sample](score, mask, temperature, self.seed_generator, noise)

    def initial_state(self, prepared: PreparedKeys, training=None):
        """What the first `attend` gets as `state`: with `training`, a random seed for each row, and the count 0."""
        if not training:
            return ()
        self.advance()
        batch = ops.shape(prepared.mask)[0]
        seed = keras.random.randint((batch,), 0, 2**31 - 1, dtype="int32", seed=self.seed_generator)
        return SampleState(seed, ops.zeros_like(seed))

    def align_step(self, query, prepared: PreparedKeys, state, training=None):
        """As `AttentionLayer.align_step`, with the samples of the state; the state comes back counted on."""
        if not training or not state:
            return super().align_step(query, prepared, state, training)
        noise = ops.expand_dims(row_gumbel(*state, ops.shape(prepared.value)[1]), 1)
        mask = ops.expand_dims(prepared.mask, 1)
        weights = self.align(ops.expand_dims(query, 1), prepared, mask, training, noise)
        return ops.squeeze(weights, 1), state._replace(step=state.step + 1)

    def draw(self, inputs, num_samples=1, mask=None, attention_mask=None, use_causal_mask=False) -> Draws:
        """Several samples of each query, for `reinforce_loss`: the mean over them is a gradient of lower variance.

        Xu et al., 2015, section 4.1, the sum over N samples: each is read by itself and has its own reward. Places are
        drawn as by sample="categorical" in training, whatever `sample` says.
        For a loop over `attend`, repeat the rows of `prepared` (with `ops.repeat`) before `initial_state` instead.

        Args:
            inputs, mask, attention_mask, use_causal_mask: as of a call.
            num_samples: int > 0. M.
        """
        positive_int("num_samples", num_samples)
        if not self.built:
            query, value = inputs[:2]
            self.build([query.shape, value.shape, inputs[-1].shape])
        query, prepared, full_mask = self.opened(inputs, mask, attention_mask, use_causal_mask)
        score = at_least_float32(self.score.score(query, prepared.key))
        each_mask = None if full_mask is None else ops.expand_dims(full_mask, 1)
        each_score = ops.repeat(ops.expand_dims(score, 1), num_samples, axis=1)  # (B, M, Tq, Tv)
        weights = ops.stop_gradient(alignments.categorical(each_score, each_mask, self.seed_generator))
        context = self.read(weights, ops.expand_dims(prepared.value, 1), training=True)
        log, entropy = _log_and_entropy(score, full_mask)
        return Draws(context, weights, _where_drawn(weights, ops.expand_dims(log, 1)), entropy)

    def log_probability(self, inputs, weights, mask=None, attention_mask=None, use_causal_mask=False):
        """How likely drawn places were, for `reinforce_loss`.

        Args:
            inputs, mask, attention_mask, use_causal_mask: as of the call that drew.
            weights: float (B, Tq, Tv), what that call returned with `return_attention_scores`.

        Returns:
            log probability of the places and entropy of what they were drawn from, both float (B, Tq), in nats, and 0
            where nothing could be drawn. Both have a gradient.
        """
        query, prepared, full_mask = self.opened(inputs, mask, attention_mask, use_causal_mask)
        log, entropy = _log_and_entropy(at_least_float32(self.score.score(query, prepared.key)), full_mask)
        return _where_drawn(weights, log), entropy

    def get_config(self):
        scheduled = self.schedule is not None
        return {
            **super().get_config(),
            **self.score_config(),
            "sample": self.sample,
            "temperature": (
                keras.saving.serialize_keras_object(self.schedule) if scheduled else self.start_temperature
            ),
        }


def _positive(temperature):
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or not temperature > 0:
        raise ValueError(f"`temperature` must be a number > 0, or a schedule of such. Received {temperature!r}.")
    return float(temperature)


def _log_and_entropy(score, mask):
    """`log softmax(e)` (B, Tq, Tv), any number where nothing is kept, and its entropy (B, Tq), 0 there."""
    probability, nothing = alignments.softmax(score, mask), ops.zeros_like(score)
    kept = score if mask is None else ops.where(mask, score, nothing - 3e38)
    log = kept - ops.logsumexp(kept, axis=-1, keepdims=True)
    return log, -ops.sum(probability * ops.where(probability > 0, log, nothing), axis=-1)


def _where_drawn(weights, log):
    """The log probability of the places that one-hot weights name, 0 where they name none: (…, Tv) → (…)."""
    drawn = ops.stop_gradient(ops.convert_to_tensor(weights)) > 0
    return ops.sum(ops.where(drawn, log, ops.zeros_like(log)), axis=-1)

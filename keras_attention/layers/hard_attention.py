"""`HardAttention`: looks at one place at a time."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.soft_attention import ScoredAttention
from keras_attention.precision import at_least_float32

__all__ = ["HardAttention"]


def _categorical(score, mask, temperature, seed):
    return alignments.categorical(score, mask, seed)


_SAMPLES = {
    "categorical": _categorical,
    "gumbel_softmax": alignments.gumbel_softmax,
    "straight_through": alignments.straight_through_gumbel,
}


@keras.saving.register_keras_serializable("keras_attention")
class HardAttention(ScoredAttention):
    """Hard attention: reads one value, the best scored; in training, one drawn at random.

    Xu et al., 2015 (arXiv 1502.03044), section 4.1: the place is drawn from `softmax(score(q, k))`.
    The score learns in one of two ways. "categorical" draws one place and passes no gradient: REINFORCE, the paper's,
    gives one with `log_probability`, `reinforce_loss` and `MovingBaseline`. Or that of the Gumbel-softmax (Jang et al.,
    2017, arXiv 1611.01144, equation 2) at a temperature T: "straight_through" draws one place and passes the gradient
    of the soft sample (section 2.2), "gumbel_softmax" reads with the soft sample itself.
    Differs from the paper: without training, the place is the best one, not a random one; the score gets no gradient.

    `temperature` is a weight that is not trained: a schedule sets it with `layer.temperature.assign(0.5)`.

    Args:
        score: str or `keras_attention.scores.Score`, as of `LuongAttention`.
        units: int > 0. Width of the hidden layer of the score, where it has one.
        sample: "straight_through", "gumbel_softmax" or "categorical", what is drawn in training.
        temperature: float > 0. T at the start.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the samples and the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Draws samples, and applies dropout.
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
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or temperature <= 0:
            raise ValueError(f"`temperature` must be a number > 0. Received {temperature!r}.")
        self.set_score(score, units)
        self.sample = sample
        self.start_temperature = float(temperature)
        if dropout == 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build_scorer(self, query_shape, value_shape, key_shape):
        super().build_scorer(query_shape, value_shape, key_shape)
        self.temperature = self.add_weight(
            name="temperature",
            shape=(),
            initializer=keras.initializers.Constant(self.start_temperature),
            trainable=False,
            autocast=False,
        )

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Weights: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv)."""
        score = at_least_float32(self.score.score(query, prepared.key))
        if not training:
            return alignments.argmax(score, mask)
        return _SAMPLES[self.sample](score, mask, self.temperature, self.seed_generator)

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
        score = at_least_float32(self.score.score(query, prepared.key))
        probability = alignments.softmax(score, full_mask)
        nothing = ops.zeros_like(score)
        kept = score if full_mask is None else ops.where(full_mask, score, nothing - 3e38)
        log = kept - ops.logsumexp(kept, axis=-1, keepdims=True)
        drawn = ops.sum(ops.where(ops.stop_gradient(weights) > 0, log, nothing), axis=-1)
        return drawn, -ops.sum(probability * ops.where(probability > 0, log, nothing), axis=-1)

    def get_config(self):
        return {
            **super().get_config(),
            **self.score_config(),
            "sample": self.sample,
            "temperature": self.start_temperature,
        }

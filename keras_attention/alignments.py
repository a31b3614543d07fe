"""Alignments: from scores to weights, `a = align(e, mask)`.

A mask is bool, True = keep, and broadcasts to the scores. Weights on masked places are exactly 0; a row with nothing to
keep is all 0 and passes no gradient. Everything here runs in at least float32, whatever the precision of the scores.
"""

from __future__ import annotations

import difflib

import keras
from keras import ops

from keras_attention.precision import at_least_float32

__all__ = [
    "argmax",
    "categorical",
    "combine_masks",
    "entmax15",
    "fixed_window",
    "gaussian_window",
    "get",
    "gumbel_softmax",
    "serialize",
    "softmax",
    "sparsemax",
    "straight_through_gumbel",
]

_LOWEST = -3e38  # the lowest finite number of float32, nearly: an empty row must have a finite maximum


def softmax(score, mask=None):
    """Softmax over the last axis, over the places that `mask` keeps.

    Args:
        score: float (…, Tv), before normalisation.
        mask: bool, broadcastable to `score`, True = keep; default keeps all.

    Returns:
        weights (…, Tv), float32 (float64 for float64 scores): rows sum to 1, or are exactly 0 where nothing is kept.
    """
    score = at_least_float32(score)
    if mask is None and score.shape[-1] != 1:
        return ops.softmax(score, axis=-1)
    if mask is None:  # Keras' softmax warns of a single place as of a mistake; here it is a sentence of one word
        mask = ops.ones_like(score, dtype="bool")
    kept = ops.where(mask, score, ops.full_like(score, _LOWEST))  # with -inf the gradient of an empty row were NaN
    exponent = ops.exp(kept - ops.stop_gradient(ops.max(kept, axis=-1, keepdims=True)))
    exponent = ops.where(mask, exponent, ops.zeros_like(exponent))
    total = ops.sum(exponent, axis=-1, keepdims=True)
    return exponent / ops.where(total > 0, total, ops.ones_like(total))


def sparsemax(score, mask=None):
    """The point of the simplex nearest to the scores: as softmax, but low scores get exactly 0.

    Martins and Astudillo, 2016 (arXiv 1602.02068), algorithm 1: `p = max(z − τ, 0)`, where τ is the one number with
    which that sums to 1; found by sorting.

    Args:
        score: float (…, Tv), before normalisation.
        mask: bool, broadcastable to `score`, True = keep; default keeps all.

    Returns:
        weights (…, Tv), float32 (float64 for float64 scores): rows sum to 1, or are exactly 0 where nothing is kept.
    """
    shifted, mask = _below_the_highest(at_least_float32(score), mask)
    ordered = _descending(shifted)
    rank = _rank(ordered)
    rises = ops.stop_gradient(1 + rank * ordered > ops.cumsum(ordered, axis=-1))
    threshold = (_sum_where(rises, ordered) - 1) / _count(rises, ordered)
    # The sum once more over the same places where they stand, so that no gradient passes the sort.
    support = ops.logical_and(ops.stop_gradient(shifted > threshold), mask)
    threshold = (_sum_where(support, shifted) - 1) / _count(support, shifted)
    return ops.where(support, shifted - threshold, ops.zeros_like(shifted))


def entmax15(score, mask=None):
    """1.5-entmax, between softmax and sparsemax: low scores get exactly 0, yet weights rise smoothly from there.

    Peters et al., 2019 (arXiv 1905.05702), the exact algorithm for α = 1.5: `p = max(z / 2 − τ, 0)²`, where τ is the
    one number with which that sums to 1; found by sorting, for of the ρ highest it is `M − √((1 − S) / ρ)`, M their
    mean and S their sum of squares about it.

    Args:
        score: float (…, Tv), before normalisation.
        mask: bool, broadcastable to `score`, True = keep; default keeps all.

    Returns:
        weights (…, Tv), float32 (float64 for float64 scores): rows sum to 1, or are exactly 0 where nothing is kept.
    """
    shifted, mask = _below_the_highest(at_least_float32(score) / 2, mask)
    ordered = _descending(shifted)
    rank = _rank(ordered)
    mean = ops.cumsum(ordered, axis=-1) / rank
    squares = ops.cumsum(ops.square(ordered), axis=-1) - rank * ops.square(mean)
    thresholds = mean - ops.sqrt(ops.maximum((1 - squares) / rank, 0))
    holds = ops.stop_gradient(thresholds <= ordered)
    last = ops.max(ops.where(holds, rank, ops.zeros_like(rank)), axis=-1, keepdims=True)
    threshold = _sum_where(rank == last, thresholds)
    # The threshold once more from the same places where they stand, so that no gradient passes the sort.
    support = ops.logical_and(ops.stop_gradient(shifted > threshold), mask)
    count = _count(support, shifted)
    mean = _sum_where(support, shifted) / count
    squares = _sum_where(support, ops.square(shifted - mean))
    threshold = mean - ops.sqrt(ops.maximum((1 - squares) / count, 1e-12))
    return ops.square(ops.where(support, shifted - threshold, ops.zeros_like(shifted)))


def argmax(score, mask=None):
    """All weight on the highest kept score, the first of equal ones. It has no gradient.

    Args and returns as `softmax`: score (…, Tv) → weights (…, Tv), one 1 a row, or none where nothing is kept.
    """
    score = at_least_float32(score)
    if mask is not None:
        score = ops.where(mask, score, ops.full_like(score, _LOWEST))
    # Not `ops.argmax`, which looks at the bits of a 0 on TensorFlow: neither TFLite nor ONNX has an operation for that.
    places = ops.cumsum(ops.ones_like(score, dtype="int32"), axis=-1)
    highest = ops.where(score == ops.max(score, axis=-1, keepdims=True), -places, ops.full_like(places, -(2**31)))
    chosen = -places == ops.max(highest, axis=-1, keepdims=True)
    if mask is not None:
        chosen = ops.logical_and(chosen, mask)
    return ops.cast(chosen, score.dtype)


def categorical(score, mask=None, seed=None, noise=None):
    """One place drawn from `softmax(e)`, as the highest of the scores with Gumbel noise. It has no gradient.

    Jang et al., 2017 (arXiv 1611.01144), equation 1. score (…, Tv), mask broadcastable to it, seed and noise as
    `gumbel_softmax` → weights (…, Tv), one 1 a row, or none where nothing is kept.
    """
    return argmax(_noisy(score, seed, noise), mask)


def gumbel_softmax(score, mask=None, temperature=1.0, seed=None, noise=None):
    """A soft sample: softmax of the scores with Gumbel noise, `softmax((e + g) / T)`.

    Jang et al., 2017 (arXiv 1611.01144), equation 2. As T falls to 0, a row becomes a one-hot sample of `softmax(e)`.

    Args:
        score: float (…, Tv).
        mask: bool, broadcastable to `score`, True = keep; default keeps all.
        temperature: float > 0, or a scalar tensor.
        seed: int or `keras.random.SeedGenerator`. An int gives the same noise each time.
        noise: float, broadcastable to `score`, of a standard Gumbel distribution; default draws it with `seed`.
    """
    score = _noisy(score, seed, noise)
    return softmax(score / ops.cast(temperature, score.dtype), mask)


def straight_through_gumbel(score, mask=None, temperature=1.0, seed=None, noise=None):
    """A one-hot sample of `softmax(e)` forwards, the gradient of the soft one backwards.

    Jang et al., 2017 (arXiv 1611.01144), section 2.2. Args as `gumbel_softmax`.
    """
    soft = gumbel_softmax(score, mask, temperature, seed, noise)
    hard = argmax(soft, ops.ones_like(soft, dtype="bool") if mask is None else mask)
    return ops.stop_gradient(hard) + (soft - ops.stop_gradient(soft))  # the bracket is exactly 0


def fixed_window(position, places, radius):
    """Which places lie within `radius` of a position, `|s − p| ≤ D`: bool, for a mask.

    position (…, 1) and places (…, Tv), of one dtype, broadcast to each other; radius in places.
    """
    return ops.abs(places - position) <= radius


def gaussian_window(position, places, deviation):
    """`exp(−(s − p)² / 2σ²)`, 1 at the position (Luong et al., 2015, section 3.2, local-p).

    position (…, 1) and places (…, Tv), float, broadcast to each other; deviation σ > 0 in places.
    """
    return ops.exp(ops.square(places - position) * (-0.5 / deviation**2))


_BY_NAME = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15, "argmax": argmax}


def get(alignment):
    """An alignment: from its name ("softmax", "sparsemax", "entmax15", "argmax"), its config, or as it is given.

    Args:
        alignment: str, or function of `score` (B, Tq, Tv) and `mask` (broadcastable to it, or None) → weights, or what
            `serialize` made of one.

    Raises:
        ValueError: the name is unknown.
        TypeError: `alignment` is neither.
    """
    if isinstance(alignment, dict):
        alignment = keras.saving.deserialize_keras_object(alignment)
    if isinstance(alignment, str):
        if alignment in _BY_NAME:
            return _BY_NAME[alignment]
        near = difflib.get_close_matches(alignment, _BY_NAME, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown alignment {alignment!r}. Expected one of {', '.join(sorted(_BY_NAME))}.{hint}")
    if not callable(alignment):
        raise TypeError(f"`alignment` must be a name or a function of score and mask. Received {alignment!r}.")
    return alignment


def serialize(alignment):
    """The name of one of ours, or the config of a function of the user's own."""
    names = [name for name, function in _BY_NAME.items() if function is alignment]
    return names[0] if names else keras.saving.serialize_keras_object(alignment)


def combine_masks(
    query_length, value_mask=None, attention_mask=None, query_mask=None, use_causal_mask=False, value_length=None
):
    """One mask for the scores, bool, broadcastable to (B, Tq, Tv), or None where everything is kept.

    Args:
        query_length: int. Tq, for the causal mask.
        value_mask: bool (B, Tv).
        attention_mask: bool (B, Tq, Tv).
        query_mask: bool (B, Tq).
        use_causal_mask: bool. Query t sees values 0 … t.
        value_length: int. Tv, for the causal mask.
    """
    masks = []
    if value_mask is not None:
        masks.append(ops.expand_dims(value_mask, 1))  # (B, 1, Tv)
    if attention_mask is not None:
        masks.append(attention_mask)
    if query_mask is not None:
        masks.append(ops.expand_dims(query_mask, 2))  # (B, Tq, 1)
    if use_causal_mask:
        rows, columns = ops.arange(query_length), ops.arange(value_length)
        masks.append(ops.expand_dims(rows[:, None] >= columns[None, :], 0))  # (1, Tq, Tv)
    mask = None
    for one in masks:
        mask = one if mask is None else ops.logical_and(mask, one)
    return mask


def _below_the_highest(score, mask):
    """Scores less the highest kept one of their row, and the mask in full.

    What is masked, or lies so far below that neither sparsemax nor entmax gives it weight, comes as -2.
    """
    mask = ops.ones_like(score, dtype="bool") if mask is None else ops.logical_and(mask, ops.ones_like(score, "bool"))
    kept = ops.where(mask, score, ops.full_like(score, _LOWEST))
    highest = ops.stop_gradient(ops.max(kept, axis=-1, keepdims=True))
    shifted = ops.where(mask, ops.maximum(kept - highest, -2), ops.full_like(score, -2))
    return shifted, mask


def _descending(score):
    return -ops.sort(-ops.stop_gradient(score), axis=-1)


def _rank(score):
    """1 … Tv along the last axis, in the shape of `score`."""
    return ops.cumsum(ops.ones_like(score), axis=-1)


def _sum_where(places, score):
    return ops.sum(ops.where(places, score, ops.zeros_like(score)), axis=-1, keepdims=True)


def _count(places, score):
    """How many places, (…, 1), at least 1: an empty row must not divide by 0."""
    return ops.maximum(ops.sum(ops.cast(places, score.dtype), axis=-1, keepdims=True), 1)


def _noisy(score, seed, noise):
    """`e + g`: the scores with Gumbel noise, in at least float32."""
    score = at_least_float32(score)
    return score + (_gumbel(score, seed) if noise is None else ops.cast(noise, score.dtype))


def _gumbel(score, seed):
    """Noise `-log(-log u)`, u uniform in (0, 1), in the shape of `score`."""
    uniform = keras.random.uniform(ops.shape(score), minval=1e-7, maxval=1.0 - 1e-7, dtype=score.dtype, seed=seed)
    return -ops.log(-ops.log(uniform))

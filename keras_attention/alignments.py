"""Alignments: from scores to weights, `a = align(e, mask)`.

A mask is bool, True = keep, and broadcasts to the scores. Weights on masked places are exactly 0; a row with nothing to
keep is all 0 and passes no gradient. Everything here runs in at least float32, whatever the precision of the scores.
"""

from __future__ import annotations

from keras import backend, ops

__all__ = ["combine_masks", "softmax"]


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
    # The lowest finite number, not -inf: an empty row must have a finite maximum, or its gradient is NaN.
    kept = ops.where(mask, score, ops.full_like(score, -3e38))
    exponent = ops.exp(kept - ops.stop_gradient(ops.max(kept, axis=-1, keepdims=True)))
    exponent = ops.where(mask, exponent, ops.zeros_like(exponent))
    total = ops.sum(exponent, axis=-1, keepdims=True)
    return exponent / ops.where(total > 0, total, ops.ones_like(total))


def at_least_float32(tensor):
    """`tensor` in float32, or as it is where it is wider."""
    dtype = backend.standardize_dtype(tensor.dtype)
    return ops.cast(tensor, "float32") if dtype in ("float16", "bfloat16") else tensor


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

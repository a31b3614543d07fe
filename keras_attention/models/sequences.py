"""Sequences of different length: padded batches of them, and the mean over what is no padding."""

from __future__ import annotations

import numpy as np
from keras import ops

__all__ = ["budget_batches", "masked_mean", "pad_rows"]


def budget_batches(lengths: list[int], budget: int) -> list[list[int]]:
    """Places of the sequences in batches, sorted by length, each of at most `budget` padded tokens (or one sequence).

    Args:
        lengths: of the sequences, in tokens.
        budget: int. Number of rows times the longest row.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda one: (-lengths[one], one)):
        # sorted from long to short: the first of a batch is its longest
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def masked_mean(values, mask):
    """values (B, T, D), mask bool (B, T) → mean over the kept places (B, D), 0 where there is none. Padding may hold
    anything.
    """
    keep = ops.expand_dims(mask, -1)
    total = ops.sum(ops.where(keep, values, ops.zeros_like(values)), axis=1)
    return total / ops.maximum(ops.sum(ops.cast(keep, values.dtype), axis=1), 1)


def pad_rows(rows: list[list[int]], pad_id: int = 0) -> np.ndarray:
    """Rows of ids → int32 (B, T), padded on the right."""
    width = max(map(len, rows))
    padded = np.full((len(rows), width), pad_id, np.int32)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded

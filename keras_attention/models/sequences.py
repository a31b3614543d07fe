"""Padded batches of sequences of different length, for running a model."""

from __future__ import annotations

import numpy as np

__all__ = ["budget_batches", "pad_rows"]


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


def pad_rows(rows: list[list[int]], pad_id: int = 0) -> np.ndarray:
    """Rows of ids → int32 (B, T), padded on the right."""
    width = max(map(len, rows))
    padded = np.full((len(rows), width), pad_id, np.int32)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded

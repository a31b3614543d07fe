"""A sentence whose predicate a person has marked: "The cat [chased] the mouse ."."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["graph_predicate", "marked_predicate"]

_OPEN, _CLOSE = "[", "]"
_ADVICE = 'Put square brackets around the one word whose roles are wanted, as in "The cat [chased] the mouse."'


def marked_predicate(words: list[str]) -> tuple[list[str], int]:
    """Words with brackets among them → the words without, and the place of the one that stood between them, from 0.

    Raises:
        ValueError: no word or more than one is marked.
    """
    opened = [place for place, word in enumerate(words) if word == _OPEN]
    closed = [place for place, word in enumerate(words) if word == _CLOSE]
    if not opened and not closed:
        raise ValueError(f"No predicate is marked. {_ADVICE}")
    if len(opened) > 1 or len(closed) > 1:
        raise ValueError(
            f"There are {len(opened)} '[' and {len(closed)} ']', and one predicate at a time is labelled. {_ADVICE}"
        )
    if not opened or not closed or closed[0] - opened[0] != 2:
        between = words[opened[0] + 1 : closed[0]] if opened and closed and closed[0] > opened[0] else []
        what = f"{len(between)} words stand" if opened and closed else "only one bracket stands"
        raise ValueError(f"Expected one word between '[' and ']'; {what} there: {' '.join(between)[:60]!r}. {_ADVICE}")
    start = opened[0]
    return [*words[:start], words[start + 1], *words[start + 3 :]], start


def graph_predicate(words):
    """`marked_predicate` in a graph.

    Args:
        words: RaggedTensor of string (B, words).

    Returns:
        bool RaggedTensor (B, words), which words are no brackets; and int32 RaggedTensor (B, words without brackets), 2
        at the predicate, else 1. A text that is marked in another way is an error when the graph runs.
    """
    dense = words.to_tensor("")
    opened, closed = tf.equal(dense, _OPEN), tf.equal(dense, _CLOSE)
    marked = tf.pad(opened, [[0, 0], [1, 0]])[:, :-1] & tf.pad(closed, [[0, 0], [0, 1]])[:, 1:]
    counts = [tf.reduce_sum(tf.cast(one, tf.int32), axis=1) for one in (opened, closed, marked & ~(opened | closed))]
    check = tf.debugging.Assert(tf.reduce_all(tf.stack(counts) == 1), [f"Each text needs one predicate. {_ADVICE}"])
    with tf.control_dependencies([check]):
        kept = words.with_values((words.values != _OPEN) & (words.values != _CLOSE))
    lengths = words.row_lengths()
    flags = tf.RaggedTensor.from_tensor(tf.where(marked, 2, 1), lengths)
    return kept, tf.ragged.boolean_mask(flags, kept)

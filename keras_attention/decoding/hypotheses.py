"""What a search returns, and the rules by which it chooses tokens and compares hypotheses of different length."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

__all__ = [
    "IMPOSSIBLE",
    "Hypotheses",
    "SearchSettings",
    "allowed_log_probabilities",
    "coverage_penalty",
    "length_penalty",
]

IMPOSSIBLE = -1e9  # a log-probability so low that what has it can never be chosen; finite, so that sums stay numbers


class Hypotheses(NamedTuple):
    """The outputs found for a batch, best first.

    Attributes:
        ids: int32 (B, K, T), from the first token to the end token, then the pad id.
        length: int32 (B, K), in tokens, the end token included; 0 where fewer than K hypotheses exist.
        score: float32 (B, K), `log_probability / length_penalty + coverage_penalty`.
        log_probability: float32 (B, K), the sum over the tokens, the end token included.
        attention: float32 (B, K, T, Tv), the weights of each step; 0 behind the end. Tv is 0 where it was not asked
            for.
    """

    ids: tf.Tensor
    length: tf.Tensor
    score: tf.Tensor
    log_probability: tf.Tensor
    attention: tf.Tensor


class SearchSettings(NamedTuple):
    """What every search needs to know.

    Attributes:
        start_id, end_id, pad_id: int.
        max_length: int > 0. Room for the output, in tokens, the end token included.
        length_penalty: float >= 0. The α of `length_penalty`; 0 compares plain log-probabilities.
        return_attention: bool.
        coverage_penalty: float >= 0. The β of `coverage_penalty`; 0 looks at no coverage.
        min_length: int >= 0. Fewest tokens before the end token.
        no_repeat_ngram: int >= 0. No n tokens in a row come twice; 0 allows it.
        never: tuple of int. Tokens that are no output.
    """

    start_id: int
    end_id: int
    pad_id: int
    max_length: int
    length_penalty: float = 0.0
    return_attention: bool = True
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0
    never: tuple[int, ...] = ()

    @property
    def keeps_attention(self) -> bool:
        """Whether the search must remember the weights."""
        return self.return_attention or self.coverage_penalty > 0


def length_penalty(length, alpha):
    """`((5 + length) / 6) ** α` (Wu et al., 2016, equation 14)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def coverage_penalty(attention, value_mask, beta):
    """`β Σ_j log min(Σ_i a_ij, 1)`: less than 0 by how little some place of the input was looked at (Wu et al., 2016,
    equation 14). A place that no step looked at counts as 1e-6.

    Args:
        attention: float (B, K, T, H · Tv), the weights of each step; of several heads their mean counts.
        value_mask: bool (B, Tv), True = keep.
        beta: float.

    Returns:
        float32 (B, K).
    """
    batch, beams, _, columns = tf.unstack(tf.shape(attention))
    length = tf.shape(value_mask)[1]
    seen = tf.reshape(tf.reduce_sum(attention, axis=2), [batch, beams, columns // length, length])
    seen = tf.clip_by_value(tf.reduce_mean(seen, axis=2), 1e-6, 1.0)
    return beta * tf.reduce_sum(tf.where(value_mask[:, None, :], tf.math.log(seen), 0.0), axis=-1)


def allowed_log_probabilities(logits, ids, t, limits, settings: SearchSettings):
    """log p(token), with what the settings forbid at this step impossible; at the limit only the end is possible.

    Args:
        logits: float (N, V).
        ids: int32 (N, T). The output so far, in its first t places.
        t: int32 scalar.
        limits: int32 (N,). Longest output of each row.
        settings: `SearchSettings`.

    Returns:
        float32 (N, V).
    """
    log_probabilities = tf.nn.log_softmax(tf.cast(logits, tf.float32), axis=-1)
    words = tf.range(tf.shape(logits)[1])
    is_end = (words == settings.end_id)[None, :]
    at_limit = (limits <= t + 1)[:, None]
    forbidden = tf.logical_and(at_limit, tf.logical_not(is_end))
    for one in settings.never:
        forbidden = tf.logical_or(forbidden, (words == one)[None, :])
    if settings.min_length:
        too_short = tf.logical_and(t < settings.min_length, tf.logical_not(at_limit))
        forbidden = tf.logical_or(forbidden, tf.logical_and(too_short, is_end))
    if settings.no_repeat_ngram:
        repeats = _repeats(ids, t, settings.no_repeat_ngram, tf.shape(logits)[1])
        forbidden = tf.logical_or(forbidden, tf.logical_and(repeats, tf.logical_not(is_end)))
    return tf.where(forbidden, IMPOSSIBLE, log_probabilities)


def _repeats(ids, t, size, words):
    """Which tokens would end an n-gram that the output has already: ids (N, T) → bool (N, words)."""
    count, room = tf.unstack(tf.shape(ids))
    places = tf.range(room)
    ends_one = tf.logical_and(places >= size - 1, places < t)[None, :]  # whether an n-gram may end there
    for back in range(1, size):
        before = tf.pad(ids[:, : room - back], [[0, 0], [back, 0]], constant_values=-1)
        last = tf.gather(ids, tf.maximum(t - back, 0), axis=1)
        ends_one = tf.logical_and(ends_one, before == last[:, None])
    ends_one = tf.broadcast_to(ends_one, [count, room])
    rows = tf.broadcast_to(tf.range(count)[:, None], [count, room])
    indices = tf.reshape(tf.stack([rows, ids], axis=-1), [-1, 2])
    found = tf.scatter_nd(indices, tf.reshape(tf.cast(ends_one, tf.float32), [-1]), tf.stack([count, words]))
    return found > 0

"""What a search returns, and the rule by which it compares hypotheses of different length."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

__all__ = ["IMPOSSIBLE", "Hypotheses", "SearchSettings", "allowed_log_probabilities", "length_penalty"]

IMPOSSIBLE = -1e9  # a log-probability so low that what has it can never be chosen; finite, so that sums stay numbers


class Hypotheses(NamedTuple):
    """The outputs found for a batch, best first.

    Attributes:
        ids: int32 (B, K, T), from the first token to the end token, then the pad id.
        length: int32 (B, K), in tokens, the end token included; 0 where fewer than K hypotheses exist.
        score: float32 (B, K), `log_probability / length_penalty`.
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
    """

    start_id: int
    end_id: int
    pad_id: int
    max_length: int
    length_penalty: float = 0.0
    return_attention: bool = True


def length_penalty(length, alpha):
    """`((5 + length) / 6) ** α` (Wu et al., 2016, equation 14)."""
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def allowed_log_probabilities(logits, at_limit, end_id):
    """log p(token), with every token but the end impossible where `at_limit`.

    Args:
        logits: float (N, V).
        at_limit: bool (N,). The output has no room for another token: it ends here.

    Returns:
        float32 (N, V).
    """
    log_probabilities = tf.nn.log_softmax(tf.cast(logits, tf.float32), axis=-1)
    is_end = tf.range(tf.shape(logits)[1]) == end_id
    forbidden = tf.logical_and(at_limit[:, None], tf.logical_not(is_end)[None, :])
    return tf.where(forbidden, IMPOSSIBLE, log_probabilities)

"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import tensorflow as tf

from keras_attention.decoding.hypotheses import Hypotheses, SearchSettings, allowed_log_probabilities, length_penalty

__all__ = ["greedy_search"]


def greedy_search(step, state, limits, settings: SearchSettings, value_length=0) -> Hypotheses:
    """Takes the most probable token at every step, until every row has ended.

    Args:
        step: function (ids int32 (B,), state) → logits (B, V), weights (B, Tv), state. It knows no search, the search
            no model.
        state: nested tensors, B first.
        limits: int32 (B,), 1 … `settings.max_length`. Longest output of each row in tokens, the end token included.
        settings: `SearchSettings`.
        value_length: int or int32 scalar. Tv, the columns of the attention that is kept.

    Returns:
        `Hypotheses` with K = 1.
    """
    batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
    room = settings.max_length
    places = tf.range(room)
    columns = value_length if settings.return_attention else 0
    start = (
        tf.fill([batch], settings.start_id),
        tf.fill([batch, room], settings.pad_id),
        tf.zeros([batch], tf.int32),
        tf.zeros([batch], tf.float32),
        tf.zeros([batch, room, columns], tf.float32),
    )

    def unfinished(t, tokens, ids, length, total, attention, state):
        return tf.logical_and(t < room, tf.reduce_any(length == 0))

    def body(t, tokens, ids, length, total, attention, state):
        logits, weights, new_state = step(tokens, state)
        log_probabilities = allowed_log_probabilities(logits, limits <= t + 1, settings.end_id)
        running = length == 0
        best = tf.argmax(log_probabilities, axis=-1, output_type=tf.int32)
        gain = tf.reduce_max(log_probabilities, axis=-1)
        here = tf.logical_and(running[:, None], (places == t)[None, :])  # (B, T)
        ids = tf.where(here, best[:, None], ids)
        if settings.return_attention:
            attention = tf.where(here[:, :, None], tf.cast(weights, tf.float32)[:, None, :], attention)
        total = tf.where(running, total + gain, total)
        length = tf.where(tf.logical_and(running, best == settings.end_id), t + 1, length)
        return t + 1, best, ids, length, total, attention, same_shapes(new_state, state)

    variables = (tf.constant(0), *start, state)
    _, _, ids, length, total, attention, _ = tf.while_loop(unfinished, body, variables)
    score = total / length_penalty(length, settings.length_penalty)
    one_best = Hypotheses(ids, length, score, total, attention)
    return Hypotheses(*(tf.expand_dims(part, 1) for part in one_best))


def same_shapes(new_state, state):
    """`new_state` with the static shapes of `state`: a loop must know that nothing grows."""
    return tf.nest.map_structure(lambda new, old: tf.ensure_shape(new, old.shape), new_state, state)

"""Beam search with a set of finished hypotheses."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_attention.decoding.greedy import same_shapes
from keras_attention.decoding.hypotheses import (
    IMPOSSIBLE,
    Hypotheses,
    SearchSettings,
    allowed_log_probabilities,
    coverage_penalty,
    length_penalty,
)

__all__ = ["beam_search", "repeat_rows"]


class _Alive(NamedTuple):
    """The K hypotheses that go on: last tokens, log-probabilities (B, K), tokens (B, K, T), weights (B, K, T, Tv)."""

    tokens: tf.Tensor
    total: tf.Tensor
    ids: tf.Tensor
    attention: tf.Tensor


def beam_search(
    step, state, limits, settings: SearchSettings, beam_size, value_length=0, value_mask=None
) -> Hypotheses:
    """Keeps the `beam_size` best hypotheses at every step, and apart from them the best that have ended.

    At each step the 2K best continuations of a row are looked at. Those among the first K that end join the finished
    set, where the K best by `log_probability / length_penalty` stay; the first K that do not end go on. A row stops,
    and its set is closed, as soon as K hypotheses have finished; at its limit every hypothesis ends. So `beam_size=1`
    is greedy search.

    Args:
        step: function (ids int32 (B · K,), state) → logits (B · K, V), weights (B · K, Tv), state. It must hold what
            it knows of the input repeated `beam_size` times: see `repeat_rows`.
        state: nested tensors, B first; repeated here.
        limits: int32 (B,), 1 … `settings.max_length`. Longest output of each row in tokens, the end token included.
        settings: `SearchSettings`.
        beam_size: int > 0, K.
        value_length: int or int32 scalar. Tv, the columns of the attention that is kept.
        value_mask: bool (B, Tv), True = keep; only needed by a coverage penalty.

    Returns:
        `Hypotheses`. Where fewer than K exist, the rest have length 0 and a score of at most -1e8.
    """
    batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
    alive, finished = _start(batch, beam_size, settings, value_length if settings.keeps_attention else 0)
    row_limits = repeat_rows(limits, beam_size)

    def unfinished(t, alive, finished, state):
        closed = tf.reduce_all(finished.length > 0, axis=1)
        # A row with fewer than K possible hypotheses never fills its set: it stops when nothing alive is possible.
        hopeless = tf.reduce_all(alive.total <= IMPOSSIBLE / 2, axis=1)
        return tf.logical_and(t < settings.max_length, tf.logical_not(tf.reduce_all(tf.logical_or(closed, hopeless))))

    def body(t, alive, finished, state):
        logits, weights, new_state = step(tf.reshape(alive.tokens, [-1]), state)
        so_far = tf.reshape(alive.ids, [-1, settings.max_length])
        log_probabilities = allowed_log_probabilities(logits, so_far, t, row_limits, settings)
        words = log_probabilities.shape[1] or tf.shape(log_probabilities)[1]
        total = alive.total[:, :, None] + tf.reshape(log_probabilities, [batch, beam_size, words])
        candidates = 2 * beam_size
        total, place = tf.math.top_k(tf.reshape(total, [batch, beam_size * words]), candidates)  # (B, 2K)
        parent, token = place // words, place % words
        grown = _grow(alive, parent, token, total, weights, t, settings)
        ends = token == settings.end_id
        ending = tf.logical_and(ends, tf.range(candidates) < beam_size)
        finished = _finish(finished, grown, ending, t, settings, value_mask)
        going_on = tf.where(ends, total + 2 * IMPOSSIBLE, total)
        _, chosen = tf.math.top_k(going_on, beam_size)  # (B, K)
        survivors = grown._replace(total=tf.where(ends, IMPOSSIBLE, total))
        alive = _Alive(*(_pick(part, chosen) for part in survivors))
        new_state = same_shapes(_reorder(new_state, _pick(parent, chosen), batch, beam_size), state)
        return t + 1, alive, finished, new_state

    variables = (tf.constant(0), alive, finished, repeat_rows(state, beam_size))
    _, _, finished, _ = tf.while_loop(unfinished, body, variables)
    return finished if settings.return_attention else finished._replace(attention=finished.attention[..., :0])


def repeat_rows(nested, times):
    """Each row `times` times, one after the other: (B, …) → (B · times, …)."""

    def repeat(tensor):
        many = tf.tile(tensor[:, None], [1, times, *[1] * (tensor.shape.rank - 1)])
        rows = tensor.shape[0] * times if tensor.shape[0] is not None else -1
        return tf.reshape(many, [rows, *_inner_shape(tensor)])

    return tf.nest.map_structure(repeat, nested)


def _start(batch, beam_size, settings, columns):
    """One empty hypothesis alive in each row, the others impossible; none finished."""
    room = settings.max_length
    first = tf.constant([[0.0] + [IMPOSSIBLE] * (beam_size - 1)])
    nothing = tf.fill([batch, beam_size, room], settings.pad_id)
    unseen = tf.zeros([batch, beam_size, room, columns], tf.float32)
    alive = _Alive(tf.fill([batch, beam_size], settings.start_id), tf.tile(first, [batch, 1]), nothing, unseen)
    never = tf.fill([batch, beam_size], IMPOSSIBLE)
    return alive, Hypotheses(nothing, tf.zeros([batch, beam_size], tf.int32), never, never, unseen)


def _grow(alive, parent, token, total, weights, t, settings):
    """The candidates (B, 2K): each parent's hypothesis with one token more."""
    here = tf.range(settings.max_length) == t
    ids = tf.where(here, token[:, :, None], _pick(alive.ids, parent))
    attention = _pick(alive.attention, parent)
    if settings.keeps_attention:
        columns = tf.shape(weights)[1]
        by_beam = tf.reshape(tf.cast(weights, tf.float32), [alive.ids.shape[0] or tf.shape(alive.ids)[0], -1, columns])
        attention = tf.where(here[:, None], _pick(by_beam, parent)[:, :, None, :], attention)
    return _Alive(token, total, ids, attention)


def _finish(finished, grown, ends, t, settings, value_mask):
    """The K best of those finished before and those that end now; a full set stays as it is."""
    beam_size = finished.ids.shape[1]
    closed = tf.reduce_all(finished.length > 0, axis=1, keepdims=True)
    joins = tf.logical_and(tf.logical_and(ends, tf.logical_not(closed)), grown.total > IMPOSSIBLE / 2)
    score = grown.total / length_penalty(t + 1, settings.length_penalty)
    if settings.coverage_penalty > 0:
        score += coverage_penalty(grown.attention, value_mask, settings.coverage_penalty)
    score = tf.where(joins, score, 2 * IMPOSSIBLE)
    length = tf.where(joins, t + 1, 0)
    new = Hypotheses(grown.ids, length, score, grown.total, grown.attention)
    both = [tf.concat(pair, axis=1) for pair in zip(finished, new, strict=True)]
    _, best = tf.math.top_k(both[2], beam_size)
    return Hypotheses(*(_pick(part, best) for part in both))


def _reorder(state, parent, batch, beam_size):
    """Every leaf (B · K, …) of the state, with the rows of each beam's parent."""

    def reorder(tensor):
        inner = _inner_shape(tensor)
        return tf.reshape(_pick(tf.reshape(tensor, [batch, beam_size, *inner]), parent), [-1, *inner])

    return tf.nest.map_structure(reorder, state)


def _inner_shape(tensor):
    """The sizes behind the first axis, as ints where they are known."""
    return [size if size is not None else tf.shape(tensor)[axis] for axis, size in enumerate(tensor.shape) if axis > 0]


def _pick(tensor, places):
    """tensor (B, N, …), places int32 (B, M) → (B, M, …)."""
    return tf.gather(tensor, places, axis=1, batch_dims=1)

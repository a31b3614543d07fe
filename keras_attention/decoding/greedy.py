"""One output a row, token by token: the most probable one, one drawn at random, or one that is given."""

from __future__ import annotations

import tensorflow as tf

from keras_attention.decoding.hypotheses import (
    IMPOSSIBLE,
    Hypotheses,
    SearchSettings,
    allowed_log_probabilities,
    coverage_penalty,
    length_penalty,
)

__all__ = ["forced_search", "greedy_search", "sample_search"]


def greedy_search(step, state, limits, settings: SearchSettings, value_length=0, value_mask=None) -> Hypotheses:
    """Takes the most probable token at every step, until every row has ended.

    Args:
        step: function (ids int32 (B,), state) → logits (B, V), weights (B, Tv), state. It knows no search, the search
            no model.
        state: nested tensors, B first.
        limits: int32 (B,), 1 … `settings.max_length`. Longest output of each row in tokens, the end token included.
        settings: `SearchSettings`.
        value_length: int or int32 scalar. Tv, the columns of the attention that is kept.
        value_mask: bool (B, Tv), True = keep; only needed by a coverage penalty.

    Returns:
        `Hypotheses` with K = 1.
    """

    def best(log_probabilities, t):
        return tf.argmax(log_probabilities, axis=-1, output_type=tf.int32)

    return _walk(step, state, limits, settings, value_length, value_mask, best)


def sample_search(
    step,
    state,
    limits,
    settings: SearchSettings,
    seeds,
    value_length=0,
    value_mask=None,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
) -> Hypotheses:
    """Draws a token at every step.

    Args:
        step, state, limits, settings, value_length, value_mask: as of `greedy_search`.
        seeds: int32 (B,). One for each row: it draws the same whatever else is in the batch.
        temperature: float > 0. Below 1 favours what is probable.
        top_k: int >= 0. Draws among the k most probable tokens; 0 among all.
        top_p: float in (0, 1]. Draws among the fewest tokens whose probabilities sum to at least p (nucleus sampling,
            Holtzman et al., 2020, section 3.1).

    Returns:
        `Hypotheses` with K = 1; its log-probability is the model's own, whatever the temperature.
    """

    def draw(log_probabilities, t):
        kept = _most_probable(log_probabilities / temperature, top_k, top_p)
        words = tf.shape(kept)[1]
        uniform = tf.map_fn(
            lambda seed: tf.random.stateless_uniform([words], tf.stack([seed, t]), minval=1e-20),
            seeds,
            fn_output_signature=tf.float32,
        )
        gumbel = -tf.math.log(-tf.math.log(uniform))
        return tf.argmax(tf.where(kept > IMPOSSIBLE / 2, kept + gumbel, IMPOSSIBLE), axis=-1, output_type=tf.int32)

    return _walk(step, state, limits, settings, value_length, value_mask, draw)


def forced_search(step, state, target, settings: SearchSettings, value_length=0, value_mask=None) -> Hypotheses:
    """Scores outputs that are given, with the attention that they get.

    Args:
        step, state, settings, value_length, value_mask: as of `greedy_search`.
        target: int32 (B, T), T = `settings.max_length`: each row a sequence that ends with the end id, then padding.

    Returns:
        `Hypotheses` with K = 1, of these ids.
    """
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(target, settings.pad_id), tf.int32), axis=1)

    def given(log_probabilities, t):
        return tf.gather(target, t, axis=1)

    free = settings._replace(min_length=0, no_repeat_ngram=0)
    return _walk(step, state, lengths, free, value_length, value_mask, given)


def _most_probable(log_probabilities, top_k, top_p):
    """`log_probabilities` (N, V), with what top-k and top-p leave out impossible."""
    if not top_k and top_p >= 1:
        return log_probabilities
    count = tf.shape(log_probabilities)[1]
    ordered, _ = tf.math.top_k(log_probabilities, tf.minimum(top_k, count) if top_k else count)
    least = ordered[:, -1:]
    if top_p < 1:
        probability = tf.nn.softmax(ordered, axis=-1)
        before = tf.cumsum(probability, axis=-1, exclusive=True)
        least = tf.reduce_min(tf.where(before < top_p, ordered, ordered[:, :1]), axis=-1, keepdims=True)
    return tf.where(log_probabilities >= least, log_probabilities, IMPOSSIBLE)


def _walk(step, state, limits, settings, value_length, value_mask, choose):
    """One output a row: `choose(log_probabilities (B, V), t)` → tokens (B,)."""
    batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
    room = settings.max_length
    places = tf.range(room)
    columns = value_length if settings.keeps_attention else 0
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
        log_probabilities = allowed_log_probabilities(logits, ids, t, limits, settings)
        running = length == 0
        chosen = choose(log_probabilities, t)
        gain = tf.gather(log_probabilities, chosen, axis=1, batch_dims=1)
        here = tf.logical_and(running[:, None], (places == t)[None, :])  # (B, T)
        ids = tf.where(here, chosen[:, None], ids)
        if settings.keeps_attention:
            attention = tf.where(here[:, :, None], tf.cast(weights, tf.float32)[:, None, :], attention)
        total = tf.where(running, total + gain, total)
        length = tf.where(tf.logical_and(running, chosen == settings.end_id), t + 1, length)
        return t + 1, chosen, ids, length, total, attention, same_shapes(new_state, state)

    variables = (tf.constant(0), *start, state)
    _, _, ids, length, total, attention, _ = tf.while_loop(unfinished, body, variables)
    found = Hypotheses(ids, length, total / length_penalty(length, settings.length_penalty), total, attention)
    found = Hypotheses(*(tf.expand_dims(part, 1) for part in found))
    if settings.coverage_penalty > 0:
        penalty = coverage_penalty(found.attention, value_mask, settings.coverage_penalty)
        found = found._replace(score=found.score + penalty)
    return found if settings.return_attention else found._replace(attention=found.attention[..., :0])


def same_shapes(new_state, state):
    """`new_state` with the static shapes of `state`: a loop must know that nothing grows."""
    return tf.nest.map_structure(lambda new, old: tf.ensure_shape(new, old.shape), new_state, state)

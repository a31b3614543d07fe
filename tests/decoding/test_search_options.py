"""What a search may be told: lengths, n-grams, coverage; sampling; and outputs that are given."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.decoding import SearchSettings, beam_search, forced_search, greedy_search, sample_search
from tests.decoding.markov import END, PAD, START, Markov


def options(room, **more):
    return SearchSettings(START, END, PAD, room, **{"return_attention": False, **more})


def arrays(found):
    return type(found)(*(part.numpy() for part in found))


def sequences(found, row):
    return [found.ids[row, place, : found.length[row, place]].tolist() for place in range(found.ids.shape[1])]


def ngrams(ids, size):
    return [tuple(ids[place : place + size]) for place in range(len(ids) - size + 1)]


def repeats(ids, size):
    found = ngrams(ids, size)
    return len(set(found)) < len(found)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_without_repeats_finds_what_brute_force_finds(seed, size):
    model, limit = Markov(seed, words=4), 5
    found = arrays(
        beam_search(model.step, model.state(), tf.constant([limit] * 3), options(limit, no_repeat_ngram=size), 121)
    )
    for row in range(3):
        # the end comes once at most, and is never a repeat
        wanted = [one for one in model.all_hypotheses(row, limit, 0.0) if not repeats(one[2], size)]
        assert sequences(found, row)[: len(wanted)] == [ids for _, _, ids in wanted]
        assert (found.length[row, len(wanted) :] == 0).all()


@pytest.mark.parametrize("beam_size", [0, 2])
def test_no_ngram_comes_twice(beam_size):
    model = Markov(3, rows=4, words=4, sharpness=4.0)
    limits = tf.constant([12] * 4)
    wanted = options(12, no_repeat_ngram=2, min_length=8)
    if beam_size:
        found = arrays(beam_search(model.step, model.state(), limits, wanted, beam_size))
    else:
        found = arrays(greedy_search(model.step, model.state(), limits, wanted))
    free = arrays(greedy_search(model.step, model.state(), limits, options(12, min_length=8)))
    assert any(repeats(sequences(free, row)[0], 2) for row in range(4))
    for row in range(4):
        for ids in filter(None, sequences(found, row)):
            assert not repeats(ids, 2)


@pytest.mark.parametrize("least", [1, 3])
def test_a_wide_beam_of_least_length_finds_what_brute_force_finds(least):
    model, limit = Markov(7, words=4), 5
    found = arrays(
        beam_search(model.step, model.state(), tf.constant([limit] * 3), options(limit, min_length=least), 121)
    )
    for row in range(3):
        wanted = [one for one in model.all_hypotheses(row, limit, 0.0) if len(one[2]) > least]
        assert sequences(found, row)[: len(wanted)] == [ids for _, _, ids in wanted]
        np.testing.assert_allclose(found.score[row, : len(wanted)], [one[0] for one in wanted], rtol=1e-5)


def test_the_limit_comes_before_the_least_length():
    model = Markov(7, words=4)
    found = arrays(greedy_search(model.step, model.state(), tf.constant([2, 1, 3]), options(4, min_length=4)))
    assert found.length[:, 0].tolist() == [2, 1, 3]


@pytest.mark.parametrize("return_attention", [True, False])
def test_a_wide_beam_with_a_coverage_penalty_finds_what_brute_force_finds(return_attention):
    model, limit, alpha, beta = Markov(4, words=4), 4, 0.8, 0.6
    mask = np.array([[True, True, True], [True, True, False], [True, False, False]])
    wanted_options = options(limit, length_penalty=alpha, coverage_penalty=beta, return_attention=return_attention)
    found = arrays(
        beam_search(model.step, model.state(), tf.constant([limit] * 3), wanted_options, 40, 3, tf.constant(mask))
    )
    assert found.attention.shape[-1] == (3 if return_attention else 0)
    for row in range(3):
        wanted = []
        for score, _, ids in model.all_hypotheses(row, limit, alpha):
            seen = np.minimum(model.attention_of(row, ids).sum(0), 1)[mask[row]]
            wanted.append((score + beta * np.log(seen).sum(), ids))
        wanted.sort(key=lambda one: -one[0])
        assert sequences(found, row)[: len(wanted)] == [ids for _, ids in wanted]
        np.testing.assert_allclose(found.score[row, : len(wanted)], [score for score, _ in wanted], rtol=1e-4)


def test_a_beam_of_one_with_a_coverage_penalty_is_greedy():
    model = Markov(9, rows=3, words=6)
    wanted = options(6, coverage_penalty=0.5, length_penalty=1.0, return_attention=True)
    mask = tf.ones([3, 3], tf.bool)
    limits = tf.constant([6, 4, 2])
    one = arrays(beam_search(model.step, model.state(), limits, wanted, 1, 3, mask))
    other = arrays(greedy_search(model.step, model.state(), limits, wanted, 3, mask))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5)


def drawn(model, rows, seeds, room=6, **more):
    limits = tf.fill([len(rows)], room)
    return arrays(
        sample_search(
            model.step, model.state(rows), limits, options(room, return_attention=True), tf.constant(seeds), 3, **more
        )
    )


def test_samples_follow_the_models_probabilities():
    model, count = Markov(1, words=5, sharpness=1.0), 4000
    for temperature in (1.0, 0.5):
        found = drawn(model, [0] * count, list(range(count)), room=2, temperature=temperature)
        shares = np.bincount(found.ids[:, 0, 0], minlength=5) / count
        wanted = np.exp(model.log_p[0, 0, START] / temperature)
        wanted /= wanted.sum()
        np.testing.assert_allclose(shares, wanted, atol=4 * np.sqrt(0.25 / count))


@pytest.mark.parametrize("more", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_drawing_among_one_is_greedy(more):
    model = Markov(2, rows=3, words=6)
    found = drawn(model, [0, 1, 2], [5, 6, 7], **more)
    wanted = arrays(greedy_search(model.step, model.state(), tf.fill([3], 6), options(6, return_attention=True), 3))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@settings(max_examples=15)
@given(st.integers(0, 10), st.integers(1, 4), st.floats(0.2, 0.95))
def test_only_the_most_probable_are_drawn(seed, top_k, top_p):
    model = Markov(seed, words=6)
    first = np.sort(np.exp(model.log_p[0, 0, START]))[::-1]
    nucleus = int(np.searchsorted(np.cumsum(first), top_p)) + 1
    order = np.argsort(-model.log_p[0, 0, START])
    by_count = set(drawn(model, [0] * 60, list(range(60)), room=2, top_k=top_k).ids[:, 0, 0])
    by_share = set(drawn(model, [0] * 60, list(range(60)), room=2, top_p=top_p).ids[:, 0, 0])
    assert by_count <= set(order[:top_k])
    assert by_share <= set(order[:nucleus])


def test_a_row_draws_the_same_in_every_batch():
    model = Markov(8, rows=4, words=6)
    together = drawn(model, [0, 1, 2, 3], [3, 1, 4, 1])
    for row, seed in enumerate([3, 1, 4, 1]):
        alone = drawn(model, [row], [seed])
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], other[row], rtol=1e-5)


def test_given_outputs_get_their_probability_and_attention():
    model = Markov(6, words=5)
    target = [[3, 4, 3, END], [END, PAD, PAD, PAD], [4, END, PAD, PAD]]
    wanted = options(4, min_length=3, no_repeat_ngram=1, return_attention=True)  # neither holds for what is given
    found = arrays(forced_search(model.step, model.state(), tf.constant(target), wanted, 3))
    for row, ids in enumerate([[3, 4, 3, END], [END], [4, END]]):
        places = [min(place, 3) for place in range(len(ids))]
        total = sum(
            model.log_p[row, place, last, token] for place, last, token in zip(places, [START, *ids], ids, strict=False)
        )
        assert sequences(found, row) == [ids]
        np.testing.assert_allclose(found.log_probability[row, 0], total, rtol=1e-5)
        np.testing.assert_allclose(found.attention[row, 0, : len(ids)], model.attention_of(row, ids), rtol=1e-5)
        assert (found.attention[row, 0, len(ids) :] == 0).all()

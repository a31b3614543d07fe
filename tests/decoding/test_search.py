from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.decoding import SearchSettings, beam_search, greedy_search, length_penalty, repeat_rows
from tests.decoding.markov import END, PAD, START, Markov


def search(model, beam_size, limits, alpha=0.0, rows=None, room=None, attention=True):
    limits = tf.constant(limits, tf.int32)
    wanted = SearchSettings(START, END, PAD, room or int(max(limits)), alpha, attention)
    if beam_size == 0:
        found = greedy_search(model.step, model.state(rows), limits, wanted, model.columns)
    else:
        found = beam_search(model.step, model.state(rows), limits, wanted, beam_size, model.columns)
    return type(found)(*(part.numpy() for part in found))


def sequences(found, row):
    return [found.ids[row, place, : found.length[row, place]].tolist() for place in range(found.ids.shape[1])]


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_brute_force_finds(seed, alpha):
    model = Markov(seed, words=4)
    limits = [4, 3, 2]
    found = search(model, 40, limits, alpha)  # 3^0 + … + 3^3 = 40 sequences of four tokens
    for row, limit in enumerate(limits):
        wanted = model.all_hypotheses(row, limit, alpha)
        assert sequences(found, row)[: len(wanted)] == [ids for _, _, ids in wanted]
        np.testing.assert_allclose(found.score[row, : len(wanted)], [score for score, _, _ in wanted], rtol=1e-5)
        np.testing.assert_allclose(
            found.log_probability[row, : len(wanted)], [total for _, total, _ in wanted], rtol=1e-5
        )
        assert (found.length[row, len(wanted) :] == 0).all()
        assert (found.score[row, len(wanted) :] <= -1e8).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy(seed, alpha):
    model = Markov(seed, rows=4, words=7)
    limits = [6, 1, 3, 6]
    beam, greedy = search(model, 1, limits, alpha), search(model, 0, limits, alpha)
    for one, two in zip(beam, greedy, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_greedy_takes_the_best_token_of_every_step():
    model = Markov(5, rows=2, words=6)
    found = search(model, 0, [8, 8], room=8)
    for row in range(2):
        last, ids = START, []
        for place in range(8):
            last = END if place == 7 else int(np.argmax(model.log_p[row, min(place, 3), last]))
            ids.append(last)
            if last == END:
                break
        assert sequences(found, row) == [ids]


@pytest.mark.parametrize("beam_size", [0, 1, 3])
def test_a_row_alone_equals_the_row_in_a_batch(beam_size):
    model = Markov(11, rows=4, words=6)
    limits = [5, 2, 4, 5]
    together = search(model, beam_size, limits, 1.0, room=5)
    for row in range(4):
        alone = search(model, beam_size, limits[row : row + 1], 1.0, rows=[row], room=5)
        for one, two in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], two[row], rtol=1e-6)


@pytest.mark.parametrize("beam_size", [0, 2, 5])
def test_every_hypothesis_comes_with_its_own_attention(beam_size):
    model = Markov(2, words=6)
    found = search(model, beam_size, [4, 4, 3], 0.5, room=6)
    for row in range(model.rows):
        for place, ids in enumerate(sequences(found, row)):
            weights = found.attention[row, place]
            np.testing.assert_allclose(weights[: len(ids)], model.attention_of(row, ids), rtol=1e-6)
            assert (weights[len(ids) :] == 0).all()
            assert (found.ids[row, place, len(ids) :] == PAD).all()


@given(seed=st.integers(0, 10**6), beam_size=st.integers(1, 4), alpha=st.floats(0, 2), limit=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_scores_are_those_of_the_sequences_and_fall(seed, beam_size, alpha, limit):
    model = Markov(seed, rows=1, words=4)
    found = search(model, beam_size, [limit], alpha)
    known = {tuple(ids): (score, total) for score, total, ids in model.all_hypotheses(0, limit, alpha)}
    real = [place for place in range(beam_size) if found.length[0, place]]
    assert real
    for place in real:
        score, total = known[tuple(sequences(found, 0)[place])]
        np.testing.assert_allclose(
            [found.score[0, place], found.log_probability[0, place]], [score, total], rtol=1e-4, atol=1e-6
        )
    assert (np.diff(found.score[0, real]) <= 1e-6).all()
    assert len({tuple(sequences(found, 0)[place]) for place in real}) == len(real)


def test_the_search_stops_as_soon_as_all_rows_have_ended():
    steps = []

    class Counted(Markov):
        def step(self, ids, state):
            steps.append(1)
            return super().step(ids, state)

    model = Counted(0, rows=2, words=4)
    model.logits[:, 1, :, END] = 50.0  # the end is certain at the second token at the latest
    wanted = SearchSettings(START, END, PAD, 30)
    for search_once in (
        lambda: greedy_search(model.step, model.state(), tf.constant([30, 30]), wanted, 3),
        lambda: beam_search(model.step, model.state(), tf.constant([30, 30]), wanted, 2, 3),
    ):
        steps.clear()
        search_once()
        assert len(steps) <= 3


def test_attention_that_is_not_asked_for_takes_no_room():
    assert search(Markov(1), 2, [4, 4, 4], attention=False).attention.shape == (3, 2, 4, 0)


def test_the_length_penalty_is_the_papers():
    np.testing.assert_allclose(length_penalty(tf.constant([1, 7]), 0.6), [1.0, 2.0**0.6], rtol=1e-6)


def test_rows_are_repeated_in_place():
    repeated = repeat_rows({"a": tf.constant([[1, 2], [3, 4]])}, 2)
    np.testing.assert_array_equal(repeated["a"], [[1, 2], [1, 2], [3, 4], [3, 4]])


def test_the_searches_run_in_a_graph_of_open_shapes():
    model = Markov(3, rows=3, words=6)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)])
    def run(rows, limits):
        state = {"row": rows, "place": tf.zeros_like(rows)}
        return beam_search(model.step, state, limits, SearchSettings(START, END, PAD, 5, 1.0), 3, 3)

    eager = search(model, 3, [5, 4, 3], 1.0, room=5)
    for one, two in zip(run(tf.range(3), tf.constant([5, 4, 3])), eager, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)

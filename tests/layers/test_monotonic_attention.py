from __future__ import annotations

import itertools
import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import MonotonicAttention
from keras_attention.layers.monotonic_attention import expected_alignment, hard_alignment
from keras_attention.scores import AdditiveScore
from tests import reference
from tests.backends import gradients, to_float64
from tests.layers.conformance import attend, give_values, masks

_, VALUE_MASK, ATTENTION_MASK = masks()


def built(**more):
    layer = MonotonicAttention(**{"score": "general", "seed": 1, **more})
    layer.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    give_values(layer, 1)
    return layer


def draw(query_length=3, value_length=5):
    rng = np.random.default_rng(0)
    shapes = ((2, query_length, 7), (2, value_length, 6), (2, value_length, 4))
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def probability(score):
    return 1 / (1 + np.exp(-score))


def rows_of(align, score, keep=None):
    """Row after row of scores (Tq, Tv) → weights (Tq, Tv)."""
    keep = np.ones(score.shape, bool) if keep is None else keep
    previous, rows = np.eye(score.shape[1], dtype="float32")[:1], []
    for one, kept in zip(score.astype("float32"), keep, strict=True):
        tensors = [ops.convert_to_tensor(array) for array in (one[None], kept[None], previous)]
        previous = ops.convert_to_numpy(align(*tensors))
        rows.append(previous[0].astype("float64"))
    return np.stack(rows)


def test_expected_weights_are_the_mean_over_all_choices():
    """Each place chooses by itself whether to stop a query: all 2^6 choices of two queries and three places."""
    score = np.random.default_rng(2).normal(size=(2, 3))
    stop, mean = probability(score), np.zeros((2, 3))
    for choice in itertools.product((0.0, 1.0), repeat=6):
        choice = np.reshape(choice, (2, 3))
        first = reference.hard_monotonic(choice[0], np.eye(3)[0])
        rows = np.stack([first, reference.hard_monotonic(choice[1], first)])
        mean += np.prod(np.where(choice == 1, stop, 1 - stop)) * rows
    np.testing.assert_allclose(rows_of(expected_alignment, score), mean, atol=1e-6)
    assert mean.sum(-1)[1] < mean.sum(-1)[0] < 1


@pytest.mark.parametrize("value_length", [1, 15, 16, 17, 33, 300])
def test_blocks_of_places_change_nothing(value_length):
    rng = np.random.default_rng(3)
    score, keep = rng.normal(size=(3, value_length)) - 2, rng.random((3, value_length)) < 0.9
    previous, expected = np.eye(value_length)[0], []
    for one, kept in zip(score, keep, strict=True):
        previous = reference.expected_monotonic(np.where(kept, probability(one), 0), previous)
        expected.append(previous)
    got = rows_of(expected_alignment, score, keep)
    np.testing.assert_allclose(got, np.stack(expected), rtol=0, atol=1e-6)
    assert (got[~keep] == 0).all()


def test_scores_of_any_size_give_exact_weights_and_gradients():
    """Where p is near 1, the paper's parallel form divides by 0."""
    rng = np.random.default_rng(4)
    score = rng.choice([-1e4, -200.0, -60.0, -1.0, 0.0, 1.0, 60.0, 200.0, 1e4], size=(4, 100)).astype("float32")
    previous, expected = np.eye(100)[0], []
    with np.errstate(over="ignore"):
        stops = probability(score.astype("float64"))
    for stop in stops:
        previous = reference.expected_monotonic(stop, previous)
        expected.append(previous)
    np.testing.assert_allclose(rows_of(expected_alignment, score), np.stack(expected), rtol=0, atol=1e-6)
    keep, start = np.ones((4, 100), bool), np.full((4, 100), 0.01, "float32")
    directions = rng.normal(size=(4, 100)).astype("float32")
    (of_score, of_start), _ = gradients(
        lambda e, a: ops.sum(expected_alignment(e, ops.convert_to_tensor(keep), a) * ops.convert_to_tensor(directions)),
        [score, start],
    )
    assert np.isfinite(of_score).all() and np.isfinite(of_start).all() and (of_start != 0).any()


def test_hard_weights_stop_at_the_first_liked_place_and_never_go_back():
    score = np.array([[-1, 2, 3, -1, 1], [5, -1, -1, 4, 5], [9, 9, 9, 1, 9], [9.0, 9, 9, -1, 9]])
    keep = np.ones(score.shape, bool)
    keep[0, 1] = False
    np.testing.assert_array_equal(rows_of(hard_alignment, score, keep), np.eye(5)[[2, 3, 3, 4]])


def test_after_the_end_nothing_is_read():
    score = np.array([[-1, 1.0, -1], [9, -1, -1], [9, 9, 9]])
    expected = [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(rows_of(hard_alignment, score), expected)


def test_a_half_is_not_enough_to_stop():
    np.testing.assert_array_equal(rows_of(hard_alignment, np.array([[0.0, 1e-6]])), [[0, 1]])


@pytest.mark.parametrize("inference", ["hard", "expected"])
def test_masked_places_are_passed_by_as_if_they_were_not_there(inference):
    layer, (query, value, key) = built(inference=inference), draw()
    value_mask = np.array([[False, True, True, False, True]] * 2)
    context, weights = attend(layer, [query, value, key], mask=[None, value_mask])
    expected = attend(layer, [query, value[:, value_mask[0]], key[:, value_mask[0]]])
    np.testing.assert_allclose(weights[:, :, value_mask[0]], expected[1], atol=1e-6)
    np.testing.assert_allclose(context, expected[0], atol=1e-5)
    assert (weights[:, :, ~value_mask[0]] == 0).all() and weights.any()


@pytest.mark.parametrize("inference", ["hard", "expected"])
def test_a_query_that_sees_nothing_leaves_the_place_as_it_was(inference):
    layer, (query, value, key) = built(inference=inference), draw()
    mask = np.array([[True, False, True]] * 2)
    expected = attend(layer, [query[:, [0, 2]], value, key])[1]
    assert expected[:, 1].any()
    by_query = attend(layer, [query, value, key], mask=[mask, None])[1]
    by_pair = attend(layer, [query, value, key], attention_mask=np.broadcast_to(mask[..., None], (2, 3, 5)))[1]
    for weights in (by_query, by_pair):
        np.testing.assert_allclose(weights[:, [0, 2]], expected, atol=1e-6)
        assert (weights[:, 1] == 0).all()


@pytest.mark.parametrize(("inference", "align"), [("hard", "hard_monotonic"), ("expected", "expected_monotonic")])
def test_location_aware_scores_see_the_weights_before(inference, align):
    layer, (query, value, key) = built(score="location_aware", units=8, inference=inference), draw()
    _, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK], attention_mask=ATTENTION_MASK)
    keep = reference.full_mask((2, 3, 5), value_mask=VALUE_MASK, attention_mask=ATTENTION_MASK)
    own = {weight.name: to_float64(weight.value) for weight in layer.weights}
    expected = reference.monotonic(reference.location_aware_scores, query, key, keep, own, getattr(reference, align))
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert weights.any()


def test_the_score_can_be_that_of_the_paper():
    layer = built(score=AdditiveScore(8, use_bias=True, normalize=True), inference="expected")
    query, value, key = draw()

    def energy(query, keys, previous, weights):
        return np.array([reference.normalized_additive(query, key, weights) for key in keys])

    own = {weight.name: to_float64(weight.value) for weight in layer.weights}
    keep = np.ones((2, 3, 5), bool)
    expected = reference.monotonic(energy, query, key, keep, own, reference.expected_monotonic)
    np.testing.assert_allclose(attend(layer, [query, value, key])[1], expected, atol=1e-5)


def test_training_expects_and_adds_noise():
    layer, still = built(noise=0.5), built(noise=0.0)
    inputs = draw()
    expected = attend(built(inference="expected"), inputs)[1]
    np.testing.assert_array_equal(attend(still, inputs, training=True)[1], expected)
    first, second = (attend(layer, inputs, training=True)[1] for _ in range(2))
    assert not np.allclose(first, expected, atol=1e-3) and not np.allclose(first, second, atol=1e-3)
    np.testing.assert_array_equal(attend(built(noise=0.5), inputs, training=True)[1], first)
    np.testing.assert_array_equal(attend(layer, inputs)[1], attend(still, inputs)[1])


def test_noise_has_the_deviation_that_is_asked_for():
    """One place: its weight in training is σ(e + noise)."""
    layer = MonotonicAttention("scaled_dot", noise=0.7, seed=3)
    query, value = np.zeros((500, 1, 2), "float32"), np.ones((500, 1, 2), "float32")
    weights = attend(layer, [query, value], training=True)[1][:, 0, 0]
    noise = np.log(weights / (1 - weights))
    assert abs(noise.mean()) < 4 * 0.7 / np.sqrt(500) and noise.std() == pytest.approx(0.7, rel=0.15)


@pytest.mark.parametrize("training", [True, False])
def test_steps_carry_the_weights_of_the_query_before(training):
    layer, (query, value, key) = built(noise=0.0), draw()
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK], training=training)
    prepared = layer.prepare(value, key, VALUE_MASK)
    state = layer.initial_state(prepared)
    np.testing.assert_array_equal(to_float64(state[0]), np.eye(5)[[0, 0]])
    for t in range(3):
        got, step_weights, state = layer.attend(query[:, t], prepared, state, training=training)
        np.testing.assert_allclose(to_float64(got), context[:, t], atol=1e-5)
        np.testing.assert_allclose(to_float64(step_weights), weights[:, t], atol=1e-6)
        np.testing.assert_array_equal(to_float64(state[0]), to_float64(step_weights))


def test_the_start_is_the_first_kept_place():
    layer, (_, value, key) = built(), draw()
    mask = np.array([[False, False, True, True, False], [False] * 5])
    alignment, memory = layer.initial_state(layer.prepare(value, key, mask))
    np.testing.assert_array_equal(to_float64(alignment), [[0, 0, 1, 0, 0], [0] * 5])
    assert memory == ()


def test_in_training_everything_gets_a_gradient_and_padding_none():
    layer, inputs = built(score="location_aware", units=8, score_bias=-1.0), draw()
    value_mask = np.array([[False] * 5, [True, True, True, False, False]])

    def function(query, value, key):
        return ops.sum(layer([query, value, key], mask=[None, value_mask], training=True) ** 2)

    (of_query, of_value, of_key), of_weights = gradients(function, inputs, layer.trainable_variables)
    for gradient in (of_query, of_value, of_key, *of_weights):
        assert np.isfinite(gradient).all() and (gradient != 0).any()
    assert (of_query[0] == 0).all() and (of_value[~value_mask] == 0).all() and (of_key[~value_mask] == 0).all()


def seek(examples, seed):
    """Queries name one of four symbols; the place to read is the first with it, from that of the query before on."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 4, size=(examples, 9))
    places = np.sort(rng.integers(0, 9, size=(examples, 4)), axis=1)
    asked = np.take_along_axis(symbols, places, 1)
    answers = np.zeros_like(places)
    for b in range(examples):
        place = 0
        for t in range(4):
            while symbols[b, place] != asked[b, t]:
                place += 1
            answers[b, t] = place
    value = rng.normal(size=(examples, 9, 6))
    return [np.eye(4)[asked], value, np.eye(4)[symbols]], answers


def test_what_is_learnt_in_training_is_solved_by_hard_choices():
    keras.utils.set_random_seed(1)
    layer = MonotonicAttention("general", score_bias=-1.0, seed=5)
    inputs = [keras.Input((None, size)) for size in (4, 6, 4)]
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.Adam(0.1), "mse")  # jit_compile="auto" must find that the loop forbids it
    data, answers = seek(128, 0)
    read = np.take_along_axis(data[1], answers[..., None], 1)
    model.fit(data, read, epochs=10, batch_size=32, verbose=0)

    data, answers = seek(50, 1)
    context, weights = attend(layer, [one.astype("float32") for one in data])
    np.testing.assert_array_equal(weights, np.eye(9)[answers])
    np.testing.assert_allclose(context, np.take_along_axis(data[1], answers[..., None], 1), atol=1e-5)


def test_the_bias_starts_where_it_is_told_and_is_trained():
    layer = MonotonicAttention(units=8, score_bias=-3.5, dtype="mixed_bfloat16")
    layer.build([(None, None, 7), (None, None, 6)])
    assert layer.score_bias in layer.trainable_weights
    assert to_float64(layer.score_bias.value) == -3.5


def test_config_names_all_arguments():
    layer = MonotonicAttention("concat", 8, -2.0, 0.5, "expected", dropout=0.25, seed=4, name="looks")
    expected = {"score": "concat", "units": 8, "score_bias": -2.0, "noise": 0.5, "inference": "expected"}
    assert layer.get_config().items() >= {**expected, "dropout": 0.25, "seed": 4, "name": "looks"}.items()
    twin = MonotonicAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert twin.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score_bias": None}, r"`score_bias` must be a number\. Received None"),
        ({"noise": -1}, r"`noise` must be a number >= 0\. Received -1"),
        ({"noise": True}, r"`noise` must be a number >= 0\. Received True"),
        ({"inference": "soft"}, r"`inference` must be one of hard, expected\. Received 'soft'"),
        ({"score": "genral"}, r"Unknown score 'genral'"),
        ({"score": "additive"}, r"'additive' has a hidden layer: give its width as `units`"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MonotonicAttention(**{"score": "general", **arguments})


def test_the_example_of_the_docstring_runs():
    layer = MonotonicAttention(units=16, score_bias=-1.0)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))

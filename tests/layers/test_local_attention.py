from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import scores
from keras_attention.layers import LocalAttention
from tests import reference
from tests.backends import to_float64
from tests.layers.conformance import attend, give_values


def draw(query_length=4, value_length=20, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((2, query_length, 7), (2, value_length, 6), (2, value_length, 7))
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def at_position(share, radius, **more):
    """A local-p layer that looks at S · share whatever the query: tanh of a large number is 1."""
    layer = LocalAttention(radius, score="dot", position_units=1, **more)
    layer.build([(None, None, 7), (None, None, 6), (None, None, 7)])
    layer.position_kernel.assign(np.full((7, 1), 1e3))
    layer.position_scale.assign([np.log(share / (1 - share))])
    return layer


def test_monotonic_looks_about_the_number_of_the_query_and_stays_at_the_last_position():
    inputs = draw(query_length=9, value_length=6)
    lengths = np.array([[6], [4]])
    mask = np.arange(6) < lengths
    _, weights = attend(LocalAttention(1, "monotonic", "dot"), inputs, mask=[None, mask])
    for row, length in enumerate((6, 4)):
        for t in range(9):
            centre = min(t, length - 1)
            seen = [s for s in range(centre - 1, centre + 2) if 0 <= s < length]
            assert np.flatnonzero(weights[row, t]).tolist() == seen
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_predictive_looks_about_a_share_of_each_rows_own_length():
    query, value, key = draw()
    query = np.abs(query)
    mask = np.arange(20) < np.array([[20], [10]])
    _, weights = attend(at_position(0.5, 2), [query, value, key], mask=[None, mask])
    assert np.flatnonzero(weights[0, 0]).tolist() == [8, 9, 10, 11, 12]
    assert np.flatnonzero(weights[1, 0]).tolist() == [3, 4, 5, 6, 7]


def test_predictive_weights_are_those_of_softmax_times_a_gaussian_of_half_the_radius():
    query, value, key = draw()
    query = np.abs(query)
    _, weights = attend(at_position(0.5, 4), [query, value, key])
    matrix = reference.score_matrix(reference.dot, query, key, {})
    window = reference.masked_softmax(matrix, np.abs(np.arange(20) - 10) <= 4)
    np.testing.assert_allclose(weights, window * np.exp(-((np.arange(20) - 10) ** 2) / (2 * 2.0**2)), atol=1e-5)
    assert (weights.sum(-1) < 1).all()


@pytest.mark.parametrize("place", [2.001, 2.3, 2.5, 2.999])
def test_window_holds_all_integers_within_the_radius(place):
    query, value, key = draw()
    query = np.abs(query)
    _, weights = attend(at_position(place / 20, 2), [query, value, key])
    expected = [s for s in range(20) if place - 2 <= s <= place + 2]
    assert np.flatnonzero(weights[0, 0]).tolist() == expected


def test_a_window_wider_than_the_values_is_global_attention():
    query, value, key = draw(value_length=5)
    layer = LocalAttention(9, "monotonic", "dot")
    _, weights = attend(layer, [query, value, key])
    matrix = reference.score_matrix(reference.dot, query, key, {})
    np.testing.assert_allclose(weights, reference.masked_softmax(matrix), atol=1e-5)


def test_weights_are_those_that_the_formula_names():
    layer, inputs = LocalAttention(2), draw()
    layer.build([one.shape for one in inputs])
    give_values(layer, 1)
    assert {w.name: tuple(w.shape) for w in layer.weights} == {
        "kernel": (7, 7),
        "position_kernel": (7, 7),
        "position_scale": (7,),
    }


class Counting(scores.DotScore):
    """Notes how many pairs it was asked for."""

    pairs = ()

    def score(self, query, prepared_key):
        Counting.pairs = (query.shape, prepared_key.shape)
        return super().score(query, prepared_key)


def test_only_the_window_is_scored():
    inputs = draw(query_length=3, value_length=500)
    LocalAttention(2, "monotonic", Counting())(inputs)
    assert Counting.pairs == ((6, 1, 7), (6, 5, 7))


@pytest.mark.parametrize("position", ["monotonic", "predictive"])
def test_context_is_the_same_where_no_weights_are_asked_for(position):
    layer, inputs = LocalAttention(2, position), draw()
    context, _ = attend(layer, inputs, use_causal_mask=True)
    np.testing.assert_array_equal(to_float64(layer(inputs, use_causal_mask=True)), context)


def test_state_counts_the_steps_row_by_row():
    layer, (query, value, key) = LocalAttention(1, "monotonic", "dot"), draw()
    layer.build([one.shape for one in (query, value, key)])
    prepared = layer.prepare(value, key)
    state = layer.initial_state(prepared)
    np.testing.assert_array_equal(ops.convert_to_numpy(state), [0, 0])
    _, weights, state = layer.attend(query[:, 0], prepared, ops.convert_to_tensor(np.array([3, 8], "int32")))
    assert [np.flatnonzero(row).tolist() for row in to_float64(weights)] == [[2, 3, 4], [7, 8, 9]]
    np.testing.assert_array_equal(ops.convert_to_numpy(state), [4, 9])


def test_positions_are_exact_in_half_precision():
    query, value, key = draw(query_length=1, value_length=3000)
    layer = at_position(0.9, 2, dtype="mixed_float16")
    weights = to_float64(layer([np.abs(query), value, key], return_attention_scores=True)[1])
    assert np.flatnonzero(weights[0, 0]).tolist() in ([2698, 2699, 2700, 2701, 2702], [2699, 2700, 2701, 2702])


def test_config_names_all_arguments():
    layer = LocalAttention(3, "predictive", "concat", 8, 5, dropout=0.25, seed=4, name="looks")
    expected = {"radius": 3, "position": "predictive", "score": "concat", "units": 8, "position_units": 5}
    assert layer.get_config().items() >= {**expected, "dropout": 0.25, "seed": 4, "name": "looks"}.items()
    twin = LocalAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert twin.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": 0}, r"`radius` must be an int > 0\. Received 0"),
        ({"radius": 2, "position": "local-p"}, r"`position` must be one of monotonic, predictive\. Received 'local-p'"),
        ({"radius": 2, "position": "monotonic", "position_units": 3}, r"`position_units` belongs to .*Received 3"),
        ({"radius": 2, "position_units": 0}, r"`position_units` must be an int > 0\. Received 0"),
        ({"radius": 2, "score": "genral"}, r"Unknown score 'genral'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalAttention(**arguments)


def test_the_example_of_the_docstring_runs():
    layer = LocalAttention(radius=2)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 50, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 50))


@pytest.mark.parametrize("position", ["predictive", "monotonic"])
@pytest.mark.parametrize("score", ["dot", "general", "cosine", "additive", "mlp"])
def test_keys_of_the_windows_alone_give_what_all_prepared_keys_give(score, position):
    query, value, key = draw(query_length=3, value_length=40)  # 3 windows of 5 are fewer keys than 40
    units = 11 if score in ("additive", "mlp") else None
    layer = LocalAttention(2, position, score, units=units)
    mask = np.arange(40) < np.array([[40], [33]])
    context, weights = attend(layer, [query, value, key], mask=[None, mask])
    keys = layer.score.prepare_key(ops.convert_to_tensor(key))
    every = ops.convert_to_numpy(layer.score.score(ops.convert_to_tensor(query), keys))
    bell = 1.0
    if position == "predictive":
        kernel, scale = (ops.convert_to_numpy(one) for one in (layer.position_kernel, layer.position_scale))
        centre = mask.sum(-1)[:, None] / (1 + np.exp(-np.tanh(query @ kernel) @ scale))
        bell = np.exp(-((np.arange(40) - centre[..., None]) ** 2) / 2)  # σ = 1
    else:
        centre = np.tile(np.arange(3.0), (2, 1))
    near = (np.abs(np.arange(40) - centre[..., None]) <= 2) & mask[:, None]
    expected = reference.masked_softmax(every, near) * bell
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(context, expected @ value, atol=1e-5)

from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.layers import BahdanauAttention
from tests import reference
from tests.backends import to_float64
from tests.layers.conformance import attend, give_values

UNITS = 4


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, 3, 7), (2, 5, 6), (2, 5, 4))]


def test_weights_are_those_that_the_formula_names():
    layer = BahdanauAttention(UNITS)
    layer(draw())
    assert {w.name: tuple(w.shape) for w in layer.weights} == {
        "query_kernel": (7, UNITS),
        "key_kernel": (4, UNITS),
        "scale": (UNITS,),
    }
    paths = {w.path for w in layer.weights}
    assert paths == {f"{layer.name}/score/{name}" for name in ("query_kernel", "key_kernel", "scale")}


def test_bias_and_gain_come_only_where_asked_for():
    layer = BahdanauAttention(UNITS, use_bias=True, normalize=True)
    layer(draw())
    added = {w.name: to_float64(w.value) for w in layer.weights if w.name in ("bias", "gain")}
    np.testing.assert_array_equal(added["bias"], np.zeros(UNITS))
    assert added["gain"] == pytest.approx(1 / np.sqrt(UNITS))
    assert len(layer.weights) == 5


def test_normalized_weights_do_not_depend_on_the_length_of_v():
    layer, inputs = BahdanauAttention(UNITS, normalize=True), draw()
    layer(inputs)
    give_values(layer, 1)
    _, before = attend(layer, inputs)
    scale, gain = layer.score.scale, layer.score.gain
    scale.assign(scale.value * 5.0)
    np.testing.assert_allclose(attend(layer, inputs)[1], before, atol=1e-6)
    gain.assign(gain.value * 5.0)
    assert not np.allclose(attend(layer, inputs)[1], before, atol=1e-3)


def test_equals_luong_concat_of_the_same_weights():
    layer, (query, value, key) = BahdanauAttention(UNITS), draw()
    layer([query, value, key])
    give_values(layer, 2)
    weights = {w.name: to_float64(w.value) for w in layer.weights}
    expected = reference.masked_softmax(reference.score_matrix(reference.concat, query, key, weights))
    np.testing.assert_allclose(attend(layer, [query, value, key])[1], expected, atol=1e-6)


@pytest.mark.parametrize("units", [0, -3, 2.0, True, "8", None])
def test_units_that_are_no_positive_int_are_refused(units):
    with pytest.raises(ValueError, match=rf"`units` must be an int > 0\. Received {units!r}"):
        BahdanauAttention(units)


def test_config_names_all_arguments():
    layer = BahdanauAttention(UNITS, normalize=True, use_bias=True, dropout=0.25, seed=4, name="looks")
    expected = {"units": UNITS, "normalize": True, "use_bias": True, "dropout": 0.25, "seed": 4, "name": "looks"}
    assert layer.get_config().items() >= expected.items()


def test_queries_and_keys_of_any_width_meet():
    context = BahdanauAttention(UNITS)([np.ones((2, 3, 9)), np.ones((2, 5, 2)), np.ones((2, 5, 11))])
    assert context.shape == (2, 3, 2)


def test_the_example_of_the_docstring_runs():
    layer = BahdanauAttention(units=16)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))

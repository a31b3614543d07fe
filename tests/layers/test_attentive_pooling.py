from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from keras_attention.layers import AttentivePooling
from tests.backends import to_float64

SEQUENCE = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")


def test_a_query_along_one_unit_looks_where_that_unit_is_highest():
    layer = AttentivePooling(None)
    layer.build(SEQUENCE.shape)
    layer.query.assign(100 * np.eye(6)[3])
    context, weights = layer(SEQUENCE, return_attention_scores=True)
    highest = SEQUENCE[..., 3].argmax(-1)
    np.testing.assert_array_equal(to_float64(weights).argmax(-1), highest)
    np.testing.assert_allclose(to_float64(context), SEQUENCE[np.arange(2), highest], atol=0.1)


def test_no_units_is_no_hidden_layer():
    without, hidden = AttentivePooling(None), AttentivePooling(6)
    for layer in (without, hidden):
        layer.build(SEQUENCE.shape)
    assert [one.name for one in without.weights] == ["query"]
    assert [one.shape for one in hidden.weights] == [(6, 6), (6,), (6,)]
    hidden.set_weights([np.eye(6), np.zeros(6), without.query])
    np.testing.assert_allclose(to_float64(hidden(SEQUENCE)), to_float64(without(SEQUENCE)), atol=1e-6)


def test_config_names_all_arguments():
    layer = AttentivePooling(8, "entmax15", dropout=0.25, seed=4, name="looks")
    config = json.loads(json.dumps(layer.get_config()))
    expected = {"units": 8, "alignment": "entmax15", "dropout": 0.25, "seed": 4, "name": "looks"}
    assert config.items() >= expected.items()
    assert AttentivePooling.from_config(config).get_config() == layer.get_config()
    assert AttentivePooling.from_config(AttentivePooling(None).get_config()).units is None


@pytest.mark.parametrize("units", [0, -3, 2.5, True, "8"])
def test_wrong_units_are_refused(units):
    with pytest.raises(ValueError, match=rf"`units` must be an int > 0\. Received {units!r}"):
        AttentivePooling(units)


def test_the_example_of_the_docstring_runs():
    layer = AttentivePooling(units=16)
    context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5))

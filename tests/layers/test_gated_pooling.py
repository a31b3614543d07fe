from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from keras_attention.layers import AttentivePooling, GatedPooling
from tests.backends import to_float64

DIM, UNITS = 6, 8
SEQUENCE = np.random.default_rng(0).normal(size=(2, 5, DIM)).astype("float32")


def built():
    layer = GatedPooling(UNITS)
    layer.build(SEQUENCE.shape)
    return layer


def test_gates_half_open_leave_half_of_the_plain_score():
    layer, plain = built(), AttentivePooling(UNITS)
    plain.build(SEQUENCE.shape)
    layer.gate_kernel.assign(np.zeros((DIM, UNITS)))
    plain.set_weights([layer.kernel, np.zeros(UNITS), layer.query / 2])
    got, expected = (one(SEQUENCE, return_attention_scores=True)[1] for one in (layer, plain))
    np.testing.assert_allclose(to_float64(got), to_float64(expected), atol=1e-6)


def test_a_closed_gate_hides_what_it_gates():
    layer, sequence = built(), SEQUENCE.copy()
    sequence[..., 0] = [-1, -1, 1, -1, 1]  # opens all gates, or closes them
    layer.gate_kernel.assign(100 * np.eye(DIM, UNITS)[:, :1] @ np.ones((1, UNITS)))
    layer.query.assign(np.full(UNITS, 3.0))
    score = to_float64(layer.score(sequence))
    np.testing.assert_allclose(score[:, [0, 1, 3]], 0, atol=1e-6)
    expected = np.tanh(sequence @ to_float64(layer.kernel)).sum(-1) * 3
    np.testing.assert_allclose(score[:, [2, 4]], expected[:, [2, 4]], atol=1e-5)


def test_config_names_all_arguments():
    layer = GatedPooling(UNITS, "sparsemax", dropout=0.25, seed=4, name="looks")
    config = json.loads(json.dumps(layer.get_config()))
    expected = {"units": UNITS, "alignment": "sparsemax", "dropout": 0.25, "seed": 4, "name": "looks"}
    assert config.items() >= expected.items()
    assert GatedPooling.from_config(config).get_config() == layer.get_config()


@pytest.mark.parametrize("units", [None, 0, 2.5])
def test_wrong_units_are_refused(units):
    with pytest.raises(ValueError, match=rf"`units` must be an int > 0\. Received {units!r}"):
        GatedPooling(units)


def test_the_example_of_the_docstring_runs():
    layer = GatedPooling(units=16)
    context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5))

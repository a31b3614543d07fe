from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.layers import MultiDimAttention
from tests.backends import to_float64
from tests.layers.conformance import attend, give_values


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, 3, 7), (2, 5, 6), (2, 5, 4))]


def test_channels_look_at_different_places():
    layer, inputs = MultiDimAttention(8), draw()
    layer(inputs)
    give_values(layer, 1)
    _, weights = attend(layer, inputs)
    assert weights.shape == (2, 6, 3, 5)
    assert len(set(weights.argmax(-1)[0, :, 0].tolist())) > 1


def test_weights_are_those_that_the_formula_names():
    layer = MultiDimAttention(8)
    layer(draw())
    names = {w.path.removeprefix(f"{layer.name}/"): tuple(w.shape) for w in layer.weights}
    assert names == {
        "channel_additive/query_kernel": (7, 8),
        "channel_additive/key_kernel": (4, 8),
        "channel_additive/bias": (8,),
        "channel_additive/output_kernel": (8, 6),
    }


def test_steps_give_a_map_a_channel():
    layer, (query, value, key) = MultiDimAttention(8), draw()
    layer.build([one.shape for one in (query, value, key)])
    context, weights, _ = layer.attend(query[:, 0], layer.prepare(value, key))
    assert (context.shape, weights.shape) == ((2, 6), (2, 6, 5))
    np.testing.assert_allclose(to_float64(weights).sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"'channel_additive' has a hidden layer: give its width as `units`"),
        ({"units": 8, "score": "channel_bilinear"}, r"'channel_bilinear' has no hidden layer.*units=8"),
        ({"score": "dot"}, r"'dot' has no channels"),
        ({"score": "channel_bilinar"}, r"Unknown score 'channel_bilinar'.*Did you mean 'channel_bilinear'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiDimAttention(**arguments)


def test_config_names_all_arguments():
    layer = MultiDimAttention(8, dropout=0.25, seed=4, name="looks")
    expected = {"units": 8, "score": "channel_additive", "dropout": 0.25, "seed": 4, "name": "looks"}
    assert layer.get_config().items() >= expected.items()


def test_the_example_of_the_docstring_runs():
    layer = MultiDimAttention(units=16)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 6, 3, 5))

from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.layers import LocationAttention
from tests.backends import tensorflow_only, to_float64
from tests.layers.conformance import attend, give_values


def draw(value_length=5):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, 3, 7), (2, value_length, 6))]


def test_values_do_not_change_the_weights():
    layer, (query, value) = LocationAttention(9), draw()
    _, weights = attend(layer, [query, value])
    np.testing.assert_array_equal(attend(layer, [query, value * 3 + 1])[1], weights)
    assert {w.name: tuple(w.shape) for w in layer.weights} == {"kernel": (7, 9)}


def test_as_many_values_as_positions_are_taken():
    assert LocationAttention(5)(draw()).shape == (2, 3, 6)


def test_more_values_than_positions_are_refused():
    with pytest.raises(ValueError, match=r"longer than the positions.*Tv = 5, max_length = 4.*Cut the values"):
        LocationAttention(4)(draw())


@tensorflow_only
@pytest.mark.parametrize("max_length", [1, 4])
def test_more_values_than_positions_are_refused_in_a_graph_of_any_length(max_length):
    import tensorflow as tf

    layer = LocationAttention(max_length)
    layer.build([(None, None, 7), (None, None, 6)])
    give_values(layer, 1)
    compiled = tf.function(
        lambda query, value: layer([query, value]),
        input_signature=[tf.TensorSpec([None, None, 7]), tf.TensorSpec([None, None, 6])],
    )
    query, value = draw(value_length=max_length)
    np.testing.assert_allclose(to_float64(compiled(query, value)), to_float64(layer([query, value])), atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError):
        compiled(*draw())


@pytest.mark.parametrize("max_length", [0, 2.5])
def test_lengths_that_are_no_positive_int_are_refused(max_length):
    with pytest.raises(ValueError, match=rf"`max_length` must be an int > 0\. Received {max_length}"):
        LocationAttention(max_length)


def test_config_names_all_arguments():
    layer = LocationAttention(9, dropout=0.25, seed=4, name="looks")
    assert layer.get_config().items() >= {"max_length": 9, "dropout": 0.25, "seed": 4, "name": "looks"}.items()


def test_the_example_of_the_docstring_runs():
    layer = LocationAttention(max_length=9)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))

from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.layers import BahdanauAttention, CoverageAttention, coverage_loss
from tests.backends import gradients, to_float64
from tests.layers.conformance import attend, give_values, masks

QUERY_MASK, VALUE_MASK, _ = masks()
UNITS = 8


def built(**more):
    layer = CoverageAttention(UNITS, **more)
    layer.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    give_values(layer, 1)
    return layer


def draw(query_length=3):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, query_length, 7), (2, 5, 6), (2, 5, 4))]


def paper_loss(weights):
    """See et al., 2017, equation 12, number by number."""
    loss = np.zeros(weights.shape[:2])
    for b, t, i in np.ndindex(*weights.shape):
        loss[b, t] += min(weights[b, t, i], sum(weights[b, before, i] for before in range(t)))
    return loss


def test_the_first_query_sees_no_coverage_and_without_its_weight_none_does():
    layer, inputs = built(), draw()
    plain = BahdanauAttention(UNITS, use_bias=True)
    plain.build([one.shape for one in inputs])
    for name in ("query_kernel", "key_kernel", "bias", "scale"):
        getattr(plain.score, name).assign(getattr(layer, name))
    _, expected = attend(plain, inputs)
    _, weights = attend(layer, inputs)
    np.testing.assert_allclose(weights[:, 0], expected[:, 0], atol=1e-6)
    assert not np.allclose(weights[:, 1], expected[:, 1], atol=1e-3)
    layer.coverage_kernel.assign(np.zeros(UNITS))
    np.testing.assert_allclose(attend(layer, inputs)[1], expected, atol=1e-6)


def test_state_is_the_sum_of_the_weights_so_far():
    layer, (query, value, key) = built(), draw()
    _, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    prepared = layer.prepare(value, key, VALUE_MASK)
    state = layer.initial_state(prepared)
    np.testing.assert_array_equal(to_float64(state), np.zeros((2, 5)))
    for t in range(3):
        _, _, state = layer.attend(query[:, t], prepared, state)
        np.testing.assert_allclose(to_float64(state), weights[:, : t + 1].sum(1), atol=1e-5)


def test_a_masked_query_covers_nothing():
    layer, (query, value, key) = built(), draw()
    mask = np.array([[True, False, True]] * 2)
    _, weights = attend(layer, [query, value, key], mask=[mask, None])
    _, without = attend(layer, [query[:, [0, 2]], value, key])
    np.testing.assert_allclose(weights[:, [0, 2]], without, atol=1e-6)


def test_coverage_is_counted_in_float32():
    layer, (_, value, key) = built(dtype="mixed_float16"), draw()
    prepared = layer.prepare(value.astype("float16"), key.astype("float16"))
    assert keras.backend.standardize_dtype(layer.initial_state(prepared).dtype) == "float32"


def test_loss_is_that_of_the_paper():
    _, weights = attend(built(), draw(4), mask=[None, VALUE_MASK])
    loss = to_float64(coverage_loss(weights.astype("float32")))
    np.testing.assert_allclose(loss, paper_loss(weights), atol=1e-6)
    assert (loss[:, 0] == 0).all() and (loss[:, 1:] > 0).all()


def test_looking_elsewhere_each_time_costs_nothing_and_looking_again_1():
    apart, again = np.eye(4)[None], np.eye(4)[None, [2, 2, 2]]
    np.testing.assert_array_equal(to_float64(coverage_loss(apart)), np.zeros((1, 4)))
    np.testing.assert_array_equal(to_float64(coverage_loss(again)), [[0, 1, 1]])


def test_the_layer_adds_the_mean_over_the_queries_that_see_something():
    layer, inputs = built(loss_weight=0.7), draw()
    _, weights = attend(layer, inputs, mask=[QUERY_MASK, VALUE_MASK])
    assert len(layer.losses) == 1
    expected = 0.7 * paper_loss(weights)[QUERY_MASK].mean()
    assert to_float64(layer.losses[0]) == pytest.approx(expected, rel=1e-5)
    plain = built()
    plain(inputs)
    assert plain.losses == []


def test_the_loss_of_nothing_is_0():
    layer, inputs = built(loss_weight=0.7), draw()
    layer(inputs, mask=[None, VALUE_MASK & False])
    assert to_float64(layer.losses[0]) == 0


def test_gradients_of_the_loss_are_finite():
    layer, inputs = built(), draw()

    def function(query, value, key):
        _, weights = layer([query, value, key], mask=[QUERY_MASK, VALUE_MASK], return_attention_scores=True)
        return keras.ops.sum(coverage_loss(weights))

    (of_query, _, of_key), of_weights = gradients(function, inputs, layer.trainable_variables)
    for gradient in (of_query, of_key, *of_weights):
        assert np.isfinite(gradient).all() and (gradient != 0).any()


def test_learns_inside_fit_with_its_loss():
    query, value = keras.Input((None, 7)), keras.Input((None, 6))
    layer = CoverageAttention(UNITS, loss_weight=1.0)
    model = keras.Model([query, value], layer([query, value]))
    model.compile(keras.optimizers.Adam(0.05))  # jit_compile="auto" must find that the loop forbids it
    queries, values, _ = draw()
    history = model.fit([queries, values], epochs=30, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]


def test_config_names_all_arguments():
    layer = CoverageAttention(UNITS, 0.5, dropout=0.25, seed=4, name="looks")
    expected = {"units": UNITS, "loss_weight": 0.5, "dropout": 0.25, "seed": 4, "name": "looks"}
    assert layer.get_config().items() >= expected.items()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, r"`units` must be an int > 0\. Received 0"),
        ({"units": 8, "loss_weight": -1}, r"`loss_weight` must be a number >= 0\. Received -1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CoverageAttention(**arguments)


def test_the_example_of_the_docstring_runs():
    layer = CoverageAttention(units=16)
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))

"""Every attention layer: its gradients, and its arithmetic in half precision."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from tests.backends import float64_only, gradients, one_backend, to_float64
from tests.layers.conformance import HALVES, attend, each_row, masks

_, VALUE_MASK, ATTENTION_MASK = masks()


def reading(layer, **arguments):
    """A scalar that depends on each number of the context: `Σ r · c` for a fixed random r."""

    def function(query, value, key):
        context = layer([query, value, key], **arguments)
        # No matter how long the padding is: the shape of the context does not depend on it.
        directions = np.random.default_rng(7).normal(size=context.shape)
        return ops.sum(context * ops.convert_to_tensor(directions, dtype=context.dtype))

    return function


@float64_only
@each_row
def test_gradients_are_those_of_finite_differences(row):
    row.needs("finite differences")
    layer, inputs = row.build(dtype="float64"), row.draw(dtype="float64")
    function = reading(layer, mask=[None, VALUE_MASK], attention_mask=ATTENTION_MASK)
    rng, step = np.random.default_rng(8), 1e-5
    of_inputs, of_weights = gradients(function, inputs, layer.trainable_variables)

    for place, gradient in enumerate(of_inputs):
        direction = rng.normal(size=gradient.shape)
        ends = []
        for sign in (1, -1):
            moved = list(inputs)
            moved[place] = inputs[place] + sign * step * direction
            ends.append(to_float64(function(*moved)))
        assert np.sum(gradient * direction) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-8)

    for variable, gradient in zip(layer.trainable_variables, of_weights, strict=True):
        start, direction = to_float64(variable.value), rng.normal(size=gradient.shape)
        ends = []
        for sign in (1, -1):
            variable.assign(start + sign * step * direction)
            ends.append(to_float64(function(*inputs)))
        variable.assign(start)
        assert np.sum(gradient * direction) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-8)


@one_backend
@each_row
def test_everything_gets_a_finite_gradient_that_is_not_0(row):
    layer, inputs = row.build(), row.draw()
    of_inputs, of_weights = gradients(reading(layer), inputs, layer.trainable_variables)
    for gradient in row.used(of_inputs, of_weights):
        assert np.isfinite(gradient).all()
        assert (gradient != 0).any()


@each_row
def test_no_gradient_flows_into_padding(row):
    layer, inputs = row.build(), row.draw()
    (_, of_value, of_key), _ = gradients(reading(layer, mask=[None, VALUE_MASK]), inputs)
    assert (of_value[~VALUE_MASK] == 0).all() and (of_key[~VALUE_MASK] == 0).all()
    row.needs("every kept place is seen")
    assert (of_value[VALUE_MASK] != 0).any(-1).all()
    row.needs("keys")
    assert (of_key[VALUE_MASK] != 0).any(-1).all()


@one_backend
@each_row
def test_more_padding_changes_no_gradient(row):
    layer, (query, value, key) = row.build(), row.draw()
    short = gradients(reading(layer, mask=[None, VALUE_MASK]), [query, value, key], layer.trainable_variables)
    value, key = (np.pad(one, ((0, 0), (0, 4), (0, 0)), constant_values=3.0) for one in (value, key))
    mask = np.pad(VALUE_MASK, ((0, 0), (0, 4)))
    long = gradients(reading(layer, mask=[None, mask]), [query, value, key], layer.trainable_variables)
    np.testing.assert_allclose(long[0][0], short[0][0], rtol=0, atol=1e-5)
    for longer, shorter in zip(long[0][1:], short[0][1:], strict=True):
        np.testing.assert_allclose(longer[:, :5], shorter, rtol=0, atol=1e-5)
        assert (longer[:, 5:] == 0).all()
    for longer, shorter in zip(long[1], short[1], strict=True):
        np.testing.assert_allclose(longer, shorter, rtol=0, atol=1e-5)


@each_row
def test_rows_with_nothing_to_keep_pass_no_gradient_and_no_nan(row):
    layer, inputs = row.build(), row.draw()
    value_mask = np.array([[False] * 5, [True] * 5])
    with_empty = gradients(reading(layer, mask=[None, value_mask]), inputs, layer.trainable_variables)
    for gradient in row.used(with_empty[0]):
        assert (gradient[0] == 0).all()
        assert np.isfinite(gradient).all() and (gradient[1] != 0).any()
    for gradient in with_empty[1]:
        assert np.isfinite(gradient).all()

    all_empty = gradients(reading(layer, mask=[None, value_mask & False]), inputs, layer.trainable_variables)
    for gradient in [*all_empty[0], *all_empty[1]]:
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


@pytest.mark.parametrize("policy", HALVES)
@each_row
def test_half_precision_stays_near_float32(row, policy):
    half, whole, inputs = row.build(dtype=policy), row.build(), row.draw()
    context, weights = half(inputs, mask=[None, VALUE_MASK], return_attention_scores=True)
    assert keras.backend.standardize_dtype(context.dtype) == policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected_context, expected_weights = attend(whole, inputs, mask=[None, VALUE_MASK])
    bound = HALVES[policy] * np.abs(expected_context).max()
    np.testing.assert_allclose(to_float64(context), expected_context, rtol=0, atol=bound)
    np.testing.assert_allclose(to_float64(weights), expected_weights, rtol=0, atol=bound)
    assert (to_float64(weights)[..., 3:][0] == 0).all()


@pytest.mark.parametrize("policy", HALVES)
@each_row
def test_huge_scores_do_not_overflow_in_half_precision(row, policy):
    layer, (query, value, key) = row.build(dtype=policy), row.draw()
    # Scores reach 1e5 and more; float16 ends at 65504.
    context, weights = attend(layer, [query * 1e3, value, key * 1e2], mask=[None, VALUE_MASK])
    assert np.isfinite(context).all() and np.isfinite(weights).all()
    row.needs("rows sum to 1")
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("policy", HALVES)
@each_row
def test_half_precision_steps_equal_the_call(row, policy):
    layer, inputs = row.build(dtype=policy), row.draw()
    query, value, key = (ops.cast(one, layer.compute_dtype) for one in inputs)
    context, weights = attend(layer, inputs, mask=[None, VALUE_MASK])
    prepared = layer.prepare(value, key, VALUE_MASK)
    got = layer.attend(query[:, 0], prepared, layer.initial_state(prepared))
    assert keras.backend.standardize_dtype(got[0].dtype) == layer.compute_dtype
    assert keras.backend.standardize_dtype(got[1].dtype) == "float32"
    bound = HALVES[policy]
    np.testing.assert_allclose(to_float64(got[0]), context[:, 0], rtol=0, atol=bound)
    np.testing.assert_allclose(to_float64(got[1]), weights[..., 0, :], rtol=0, atol=bound)


@pytest.mark.parametrize("policy", HALVES)
@each_row
def test_half_precision_gradients_are_finite(row, policy):
    layer, inputs = row.build(dtype=policy), row.draw()
    value_mask = np.array([[False] * 5, [True] * 5])
    function = reading(layer, mask=[None, value_mask])
    of_inputs, of_weights = gradients(function, inputs, layer.trainable_variables)
    for gradient in row.used(of_inputs, of_weights):
        assert np.isfinite(gradient).all() and (gradient != 0).any()

"""Every layer with a call of its own: its gradients, and its arithmetic in half precision."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.backends import float64_only, gradients, one_backend, to_float64
from tests.layers.compositions import (
    assert_close,
    built,
    call,
    cut,
    each_case,
    kept,
    lengths_of,
    looked_at,
    pad,
    reading,
    run,
)
from tests.layers.conformance import HALVES


def gradients_of(case, layer, arrays, masks=None, lengths=None):
    """The gradients of `reading`: by name of the float arrays, and a list of those of the trainable weights."""
    function = reading(case, layer, masks, lengths)
    ids = {name: arrays[name] for name in case.ints}

    def of_floats(*floats):
        return function({**dict(zip(case.arrays, floats, strict=True)), **ids})

    of_arrays, of_weights = gradients(of_floats, [arrays[name] for name in case.arrays], layer.trainable_variables)
    return dict(zip(case.arrays, of_arrays, strict=True)), of_weights


def slope(function, step=1e-5):
    """The slope of a function of one number at 0, from both sides."""
    high, low = (to_float64(function(sign * step)) for sign in (1, -1))
    return pytest.approx(float(high - low) / (2 * step), rel=1e-6, abs=1e-7)


@float64_only
@each_case
def test_gradients_are_those_of_finite_differences(case):
    """In one random direction of all inputs together, and one of all weights."""
    case.needs("finite differences")
    layer, arrays, masks = built(case, dtype="float64"), case.draw(dtype="float64"), case.draw_masks()
    function, rng = reading(case, layer, masks), np.random.default_rng(8)
    of_arrays, of_weights = gradients_of(case, layer, arrays, masks)

    directions = {name: rng.normal(size=gradient.shape) for name, gradient in of_arrays.items()}
    along = sum(np.sum(of_arrays[name] * direction) for name, direction in directions.items())
    assert along == slope(
        lambda step: function({**arrays, **{name: arrays[name] + step * one for name, one in directions.items()}})
    )

    starts = [to_float64(variable.value) for variable in layer.trainable_variables]
    directions = [rng.normal(size=start.shape) for start in starts]

    def with_moved_weights(step):
        for variable, start, direction in zip(layer.trainable_variables, starts, directions, strict=True):
            variable.assign(start + step * direction)
        return function(arrays)

    along = sum(np.sum(one * direction) for one, direction in zip(of_weights, directions, strict=True))
    assert along == slope(with_moved_weights)


@one_backend
@each_case
def test_everything_gets_a_finite_gradient_that_is_not_0(case):
    case.needs("gradient of everything")
    layer = built(case)
    of_arrays, of_weights = gradients_of(case, layer, case.draw())
    paths = [variable.path for variable in layer.trainable_variables]
    for name, gradient in [*of_arrays.items(), *zip(paths, of_weights, strict=True)]:
        assert np.isfinite(gradient).all() and (gradient != 0).any(), name


@one_backend
@each_case
def test_padding_gets_no_gradient_and_changes_none(case):
    case.needs("more padding")
    layer, arrays, masks = built(case), case.draw(), case.draw_masks()
    short, short_weights = gradients_of(case, layer, arrays, masks)
    for name, axes in case.arrays.items():
        assert (short[name][~kept(case, masks, axes, arrays[name].shape)] == 0).all(), name

    longer, longer_masks = pad(case, arrays, masks)
    long, long_weights = gradients_of(case, layer, longer, longer_masks, lengths_of(case, arrays))
    for name, axes in case.arrays.items():
        assert (long[name][~kept(case, longer_masks, axes, longer[name].shape)] == 0).all(), name
    assert_close({name: cut(one, short[name].shape) for name, one in long.items()}, short)
    assert_close(dict(enumerate(long_weights)), dict(enumerate(short_weights)))


@each_case
def test_rows_with_nothing_to_keep_pass_no_gradient_and_no_nan(case):
    layer, arrays = built(case), case.draw()
    for mask_name, mask_axes in case.masks.items():
        mask = np.ones(case.shape(mask_axes), bool)
        mask[0] = False
        of_arrays, of_weights = gradients_of(case, layer, arrays, {mask_name: mask})
        for name, gradient in of_arrays.items():
            assert np.isfinite(gradient).all(), name
            hidden = ~kept(case, {mask_name: mask}, case.arrays[name], gradient.shape)
            assert (gradient[hidden] == 0).all(), name
        assert all(np.isfinite(gradient).all() for gradient in of_weights)


@pytest.mark.parametrize("policy", HALVES)
@each_case
def test_half_precision_stays_near_float32(case, policy):
    case.needs("half precision")
    arrays, masks = case.draw(), case.draw_masks()
    layer = built(case, dtype=policy)
    found, expected = call(case, layer, arrays, masks), run(case, built(case), arrays, masks)
    bound = HALVES[policy] * case.half_bound
    for name, one in found.items():
        wide = {"float32"} if name in case.weights else {"float32", layer.compute_dtype}
        assert keras.backend.standardize_dtype(one.dtype) in wide, name
    assert_close({name: to_float64(one) for name, one in found.items()}, expected, bound)
    for name in case.looks_at:
        assert (to_float64(found[name])[~looked_at(case, masks, name, expected[name].shape)] == 0).all(), name


@pytest.mark.parametrize("policy", HALVES)
@each_case
def test_huge_scores_do_not_overflow_in_half_precision(case, policy):
    case.needs("half precision")
    case.needs("huge scores")
    arrays, masks = case.draw(), case.draw_masks()
    for name in case.arrays:
        arrays[name] *= 1e3
    for name, one in run(case, built(case, dtype=policy), arrays, masks).items():
        assert np.isfinite(one).all(), name


@pytest.mark.parametrize("policy", HALVES)
@each_case
def test_half_precision_gradients_are_finite(case, policy):
    case.needs("half precision")
    layer, arrays = built(case, dtype=policy), case.draw()
    masks = {name: np.ones(case.shape(axes), bool) for name, axes in case.masks.items()}
    for mask in masks.values():
        mask[0] = False
    of_arrays, of_weights = gradients_of(case, layer, arrays, masks)
    for gradient in [*of_arrays.values(), *of_weights]:
        assert np.isfinite(gradient).all()
    if "gradient of everything" not in case.left_out:
        assert all((gradient != 0).any() for gradient in [*of_arrays.values(), *of_weights])

"""Every layer with a call of its own, every rule: values, masks, padding, dropout."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest

from keras_attention import layers
from tests.backends import float64_only, one_backend, to_float64
from tests.layers.case import PROPERTIES
from tests.layers.compositions import (
    CASES,
    assert_close,
    built,
    call,
    cut,
    each_case,
    expect,
    float_and_int_axes,
    kept,
    looked_at,
    moved,
    over,
    pad,
    padded_sizes,
    run,
)
from tests.layers.conformance import ABSTRACT, TABLE, contents

BASES = ABSTRACT | {"SequencePooling"}


def some_masks(case):
    """No mask, each alone, all of them."""
    masks = case.draw_masks()
    return [{}, *({name: mask} for name, mask in masks.items() if len(masks) > 1), masks] if masks else [{}]


def test_every_public_layer_with_weights_is_in_a_table():
    public = {name: getattr(layers, name) for name in layers.__all__}
    attention = {
        name
        for name, one in public.items()
        if inspect.isclass(one)
        and issubclass(one, keras.layers.Layer)
        and "return_attention_scores" in inspect.signature(one.call).parameters
    }
    tested = {one.layer.__name__ for one in [*TABLE, *CASES]}
    assert attention - BASES <= tested
    names = [one.name for one in [*TABLE, *CASES]]
    assert len(set(names)) == len(names)


@each_case
def test_a_case_says_what_it_leaves_out(case):
    assert case.left_out.keys() <= PROPERTIES.keys()
    assert all(case.left_out.values())
    assert set(padded_sizes(case)) <= case.sizes.keys()


@each_case
def test_values_are_those_of_the_paper(case):
    case.needs("values")
    layer, arrays = built(case), case.draw()
    for masks in some_masks(case):
        assert_close(run(case, layer, arrays, masks), expect(case, layer, arrays, masks))


@float64_only
@each_case
def test_values_in_float64_are_those_of_the_paper(case):
    case.needs("values")
    layer, arrays, masks = built(case, dtype="float64"), case.draw(dtype="float64"), case.draw_masks()
    found = call(case, layer, arrays, masks)
    assert {keras.backend.standardize_dtype(one.dtype) for one in found.values()} == {"float64"}
    found = {name: to_float64(one) for name, one in found.items()}
    assert_close(found, expect(case, layer, arrays, masks), 1e-10)


@one_backend
@each_case
def test_shapes_are_those_of_the_axes(case):
    layer = built(case)
    for sizes in ({}, {size: length + 1 for size, length in case.sizes.items()}):
        found = call(case, layer, case.draw(**sizes), case.draw_masks(**sizes))
        for name, axes in {**case.outputs, **case.weights}.items():
            assert tuple(found[name].shape) == case.shape(axes, sizes), name


@each_case
def test_weights_are_at_least_0_and_sum_to_1_or_0(case):
    layer, arrays = built(case), case.draw()
    for masks in some_masks(case):
        found = run(case, layer, arrays, masks)
        for name in case.weights:
            keep = looked_at(case, masks, name, found[name].shape)
            assert (found[name][~keep] == 0).all(), name
            if "weights are shares" not in case.left_out:
                assert (found[name] >= 0).all() and (found[name].sum(-1) <= 1 + 1e-6).all(), name
            if "every kept place is seen" not in case.left_out:
                assert (found[name][keep] > 0).all(), name
            if "rows sum to 1" not in case.left_out:
                np.testing.assert_allclose(found[name].sum(-1), keep.any(-1), atol=1e-6, err_msg=name)


@each_case
def test_the_masks_that_are_drawn_hide_some_places_and_not_all(case):
    for name in case.looks_at:
        keep = looked_at(case, case.draw_masks(), name, case.shape(case.weights[name]))
        assert 0 < keep.sum() < keep.size, name


@each_case
def test_changed_padding_changes_nothing(case):
    case.needs("more padding")
    layer, arrays, masks = built(case), case.draw(), case.draw_masks()
    before = run(case, layer, arrays, masks)
    for name, axes in case.arrays.items():
        arrays[name][~kept(case, masks, axes, arrays[name].shape)] = 1e4
    for name, (axes, bound) in case.ints.items():
        arrays[name][~kept(case, masks, axes, arrays[name].shape)] = bound - 1
    after = run(case, layer, arrays, masks)
    for name, axes in {**case.outputs, **case.weights}.items():
        keep = kept(case, masks, axes, before[name].shape)
        np.testing.assert_array_equal(after[name][keep], before[name][keep], err_msg=name)


@one_backend
@each_case
def test_more_padding_changes_nothing(case):
    case.needs("more padding")
    layer, arrays, masks = built(case), case.draw(), case.draw_masks()
    short = run(case, layer, arrays, masks)
    longer, longer_masks = pad(case, arrays, masks)
    long = run(case, layer, longer, longer_masks)
    keep = {n: kept(case, masks, axes, short[n].shape) for n, axes in {**case.outputs, **case.weights}.items()}
    seen = {name: cut(one, short[name].shape)[keep[name]] for name, one in long.items()}
    assert_close(seen, {name: one[keep[name]] for name, one in short.items()}, 1e-6)
    for name in case.looks_at:
        assert (long[name][~looked_at(case, longer_masks, name, long[name].shape)] == 0).all(), name


@each_case
def test_rows_with_nothing_to_keep_are_0(case):
    layer, arrays = built(case), case.draw()
    whole = run(case, layer, arrays)
    for name, axes in case.masks.items():
        mask = np.ones(case.shape(axes), bool)
        mask[0] = False
        found = run(case, layer, arrays, {name: mask})
        assert all(np.isfinite(one).all() for one in found.values())
        assert_close({n: one[1:] for n, one in found.items()}, {n: one[1:] for n, one in whole.items()}, 1e-6)
        for weights in case.looks_at:
            assert (found[weights][~looked_at(case, {name: mask}, weights, found[weights].shape)] == 0).all(), weights
        if "values" not in case.left_out:
            assert_close(found, expect(case, layer, arrays, {name: mask}))


@one_backend
@each_case
def test_sizes_of_1_are_as_good_as_any(case):
    case.needs("length 1")
    layer = built(case)
    for size in case.sizes:
        arrays = case.draw(**{size: 1})
        found = run(case, layer, arrays)
        for name, axes in case.weights.items():
            if axes[-1] == size and "rows sum to 1" not in case.left_out:
                np.testing.assert_allclose(found[name], 1, atol=1e-6)
        if "values" not in case.left_out:
            assert_close(found, expect(case, layer, arrays))


@one_backend
@each_case
def test_batch_of_one_equals_row_of_many(case):
    layer, arrays, masks = built(case), case.draw(batch=4), case.draw_masks(batch=4)
    many = run(case, layer, arrays, masks)
    for b in range(4):
        alone = run(case, layer, *({name: one[b : b + 1] for name, one in group.items()} for group in (arrays, masks)))
        # Products of another size round otherwise, and a decoder passes that on from step to step.
        assert_close(alone, {name: one[b : b + 1] for name, one in many.items()}, 1e-6 * case.half_bound)


@one_backend
@each_case
def test_moving_places_moves_their_weights(case):
    case.needs("permutation")
    layer, arrays, masks = built(case), case.draw(), case.draw_masks()
    before = run(case, layer, arrays, masks)
    for size in padded_sizes(case):
        order = np.roll(np.arange(case.sizes[size])[::-1], 1)
        after = run(
            case,
            layer,
            moved(arrays, float_and_int_axes(case), size, order),
            moved(masks, case.masks, size, order),
        )
        expected = moved(before, {**case.outputs, **case.weights}, size, order)
        assert_close(after, expected, 1e-6)


@each_case
def test_dropout_drops_in_training_only(case):
    if "dropout" not in inspect.signature(case.layer.__init__).parameters:
        pytest.skip("it has no dropout")
    layer, arrays, masks = built(case, dropout=0.4), case.draw(), case.draw_masks()
    whole = run(case, layer, arrays, masks)
    in_training = run(case, layer, arrays, masks, training=True)
    for name in case.outputs:
        assert not np.allclose(in_training[name], whole[name], atol=1e-3), name
    for name in case.weights:
        keep = looked_at(case, masks, name, whole[name].shape)
        assert (in_training[name][~keep] == 0).all(), name
        if "rows sum to 1" not in case.left_out:
            np.testing.assert_allclose(in_training[name].sum(-1), keep.any(-1), atol=1e-6, err_msg=name)
        if "the same weights in training" not in case.left_out:
            np.testing.assert_allclose(in_training[name], whole[name], atol=1e-6, err_msg=name)


@each_case
def test_nothing_is_stored_on_the_layer(case):
    layer, arrays, masks = built(case), case.draw(), case.draw_masks()
    run(case, layer, arrays)
    before = contents(layer)
    run(case, layer, arrays, masks, training=True)
    assert contents(layer) == before


def test_masks_lie_over_the_axes_of_their_names():
    mask = np.array([[True, False, True], [True, True, False]])
    heads = over(mask, ("batch", "words"), ("batch", 2, "words", "words"), (2, 2, 3, 3), last=-1)
    assert (heads == mask[:, None, None, :]).all()
    rows = over(mask, ("batch", "words"), ("batch", "words", 4), (2, 3, 4))
    assert (rows == mask[:, :, None]).all()
    with pytest.raises(AssertionError, match="does not lie over axis -1"):
        over(mask, ("batch", "words"), ("batch", "words", 4), (2, 3, 4), last=-1)

"""What the tests of compositions do with a `Case`: collect, build, run, mask, pad."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest
from keras import ops

from tests.backends import to_float64
from tests.layers import cases
from tests.layers.conformance import give_values

MODULES = [importlib.import_module(f"{cases.__name__}.{one.name}") for one in pkgutil.iter_modules(cases.__path__)]
CASES = [case for module in MODULES for case in module.CASES]
TESTED = [case for module in MODULES for case in module.CASES if case.name not in getattr(module, "ONLY_AGREEMENT", ())]
each_case = pytest.mark.parametrize("case", TESTED, ids=lambda case: case.name)


class Recorder:
    """A layer that also notes what it was last called with."""

    def __init__(self, layer):
        self.layer = layer

    def __call__(self, *args, **kwargs):
        self.arguments = inspect.signature(self.layer.call).bind(*args, **kwargs).arguments
        return self.layer(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.layer, name)


def tensors(arrays):
    return {name: ops.convert_to_tensor(array) for name, array in arrays.items()}


def call(case, layer, arrays, masks=None, **more):
    """The layer's outputs and weights by name, as it gives them."""
    found = case.call(layer, tensors(arrays), tensors(masks or {}), **more)
    assert found.keys() == {*case.outputs, *case.weights}
    return found


def run(case, layer, arrays, masks=None, **more):
    """The same as float64 arrays."""
    return {name: to_float64(one) for name, one in call(case, layer, arrays, masks, **more).items()}


def built(case, *, seed=1, **more):
    """A built layer whose trainable weights all differ."""
    layer = case.make(**more)
    symbolic(case, layer)
    give_values(layer, seed)
    return layer


def expect(case, layer, arrays, masks=None):
    """What the reference makes of it."""
    arrays = {name: array if name in case.ints else array.astype("float64") for name, array in arrays.items()}
    lengths = lengths_of(case, arrays)
    everything = {name: np.ones(case.shape(axes, lengths), bool) for name, axes in case.masks.items()}
    weights = {one.path: to_float64(one.value) for one in layer.weights}
    found = case.reference(arrays, {**everything, **(masks or {})}, weights)
    assert found.keys() == {*case.outputs, *case.weights}
    return found


def assert_close(found, expected, bound=1e-5):
    """Each of `expected`, by name, within a bound: in parts of its largest number, and of 1 where all are smaller."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        scale = max(1.0, np.abs(one).max())
        np.testing.assert_allclose(found[name], one, rtol=0, atol=bound * scale, err_msg=name)


def float_and_int_axes(case):
    """The axes of the arrays that go in, by name."""
    return {**case.arrays, **{name: axes for name, (axes, _) in case.ints.items()}}


def lengths_of(case, arrays):
    """How long the named sizes are in these arrays."""
    return {
        axis: length
        for name, axes in float_and_int_axes(case).items()
        for axis, length in zip(axes, arrays[name].shape, strict=True)
        if isinstance(axis, str)
    }


def padded_sizes(case):
    """The sizes that padding may lengthen."""
    return tuple(dict.fromkeys(axes[-1] for axes in case.masks.values())) if case.padded is None else case.padded


def over(mask, mask_axes, axes, shape, last=None):
    """A mask in the shape of a tensor of those axes.

    Its last axis stands at `last` of theirs, by default where the name stands first; the others where theirs do.
    """
    places = [axes.index(axis) for axis in mask_axes]
    if last is not None:
        places[-1] = range(len(axes))[last]
        assert axes[last] == mask_axes[-1], f"{mask_axes} does not lie over axis {last} of {axes}"
    assert places == sorted(set(places)), f"{mask_axes} does not lie along {axes}"
    full = [1] * len(axes)
    for place, length in zip(places, mask.shape, strict=True):
        full[place] = length
    return np.broadcast_to(mask.reshape(full), shape)


def kept(case, masks, axes, shape):
    """Which places of a tensor of those axes none of the masks hides."""
    keep = np.ones(shape, bool)
    for name, mask in masks.items():
        if set(case.masks[name]) <= set(axes):
            keep = keep & over(mask, case.masks[name], axes, shape)
    return keep


def looked_at(case, masks, name, shape):
    """Which places of the weights of this name may be above 0."""
    axes, keep = case.weights[name], np.ones(shape, bool)
    for side, last in ((case.looks_at, -1), (case.asked_by, -2)):
        if name in side and side[name] in masks:
            keep = keep & over(masks[side[name]], case.masks[side[name]], axes, shape, last)
    return keep


def pad(case, arrays, masks, by=3):
    """Longer inputs: each size of `padded` gets `by` more places, which all masks hide.

    Floats are filled with 2, ids with 0, which is padding.
    """

    def longer(array, axes, filling):
        widths = [(0, by if axis in padded_sizes(case) else 0) for axis in axes]
        return np.pad(array, widths, constant_values=filling)

    axes = float_and_int_axes(case)
    return (
        {name: longer(array, axes[name], 0 if name in case.ints else 2) for name, array in arrays.items()},
        {name: longer(mask, case.masks[name], False) for name, mask in masks.items()},
    )


def moved(arrays, axes, size, order):
    """Arrays by name, with the places along one size in another order; `axes` names the axes of each."""
    return {
        name: array[
            np.ix_(*(order if axis == size else range(n) for axis, n in zip(axes[name], array.shape, strict=True)))
        ]
        for name, array in arrays.items()
    }


def cut(array, shape):
    """The first places of each axis."""
    return array[tuple(slice(length) for length in shape)]


def reading(case, layer, masks=None, lengths=None):
    """A function of the arrays: what `reading_of` makes of the layer's outputs."""
    read = reading_of(case, masks, lengths)
    return lambda arrays: read(call(case, layer, arrays, masks))


def reading_of(case, masks=None, lengths=None):
    """A function of the outputs: `Σ r · output` for a fixed random r, 0 at what is masked or past `lengths`.

    Of the weights where the layer has no other outputs.
    """
    asked = case.outputs or case.weights

    def directions(place, axes, shape):
        drawn, within = np.zeros(shape), case.shape(axes, lengths)
        cut(drawn, within)[...] = np.random.default_rng(7 + place).normal(size=within)
        return drawn * kept(case, masks or {}, axes, shape)

    def read(found):
        total = 0.0
        for place, (name, axes) in enumerate(asked.items()):
            one = found[name]
            total = total + ops.sum(one * ops.convert_to_tensor(directions(place, axes, one.shape), dtype=one.dtype))
        return total

    return read


def symbolic(case, layer):
    """Inputs of unknown sizes by name, those of masks as "mask_…", and what the layer makes of them."""
    inputs = {}
    for name, axes in float_and_int_axes(case).items():
        dtype = "int32" if name in case.ints else "float32"
        inputs[name] = keras.Input(unknown(axes)[1:], dtype=dtype, name=name)
    for name, axes in case.masks.items():
        inputs[f"mask_{name}"] = keras.Input(unknown(axes)[1:], dtype="bool", name=f"mask_{name}")
    arrays = {name: inputs[name] for name in float_and_int_axes(case)}
    return inputs, case.call(layer, arrays, {name: inputs[f"mask_{name}"] for name in case.masks})


def unknown(axes):
    return tuple(None if isinstance(axis, str) else axis for axis in axes)


def feed(arrays, masks):
    """What a model of `symbolic` takes."""
    return {**arrays, **{f"mask_{name}": mask for name, mask in masks.items()}}

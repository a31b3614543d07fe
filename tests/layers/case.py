"""What the table of compositions says of each layer: `test_compositions*.py` run each case through each property.

The layers of `conformance.py` are called like `keras.layers.Attention`. Those here have calls of their own: a case
names the axes of everything that goes in and comes out, so that the tests can pad, mask, shorten and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

PROPERTIES = {
    "values": "outputs and weights are those of the reference",
    "weights are shares": "weights are at least 0 and rows sum to at most 1",
    "rows sum to 1": "each row of weights sums to 1, or is all 0",
    "every kept place is seen": "what is kept has a weight above 0",
    "permutation": "moving the places along a size of `padded` moves the weights with them, and changes nothing else",
    "more padding": "padding, more of it or other numbers in it, changes no output and no gradient",
    "finite differences": "gradients are those of finite differences",
    "gradient of everything": "each float input and each trainable weight gets a gradient that is not 0",
    "half precision": "in mixed_float16 and mixed_bfloat16 everything stays near float32",
    "huge scores": "inputs of 1e3 give no NaN in half precision",
    "the same weights in training": "dropout, where the layer has some, leaves the weights as they are",
    "length 1": "sizes may be 1",
    "compute_output_shape": "it says the shape of what the layer returns",
    "TimeDistributed": "where the layer takes one tensor",
    "graph": "tf.function of unknown sizes",
    "xla": "the same compiled by XLA",
    "tflite": "conversion to built-in operations of LiteRT",
    "tflite of any lengths": "one file for all lengths; else a file for each",
    "onnx": "conversion to ONNX",
}


@dataclass(frozen=True)
class Case:
    """One layer in one configuration.

    An axis is an int, a fixed width, or a str, the name of a size: "batch", "query", "value", "words", ….

    Attributes:
        name: of the test.
        layer: the class.
        options: its arguments.
        sizes: size name → its length in the tests; odd, distinct and small.
        arrays: name → axes, of the float inputs; the first axis is "batch".
        masks: name → axes, of the bool inputs, True = keep; the last axis is the one that is masked.
        outputs: name → axes, of the outputs that are no weights.
        weights: name → axes, of the attention weights; the last axis is what is looked at.
        looks_at: name of weights → name of the mask over their last axis.
        asked_by: name of weights → name of the mask over their axis before the last, where a masked query gives rows
            of 0; usually empty.
        call: layer, arrays by name, masks by name (only those that are given), further arguments (`training=…`) →
            outputs and weights by name.
        reference: arrays (float64) by name, masks by name (every one of `masks`), the layer's own weights by path
            → outputs and weights by name, NumPy float64, from the paper.
        ints: name → (axes, upper bound), of the integer inputs, where there are some (ids); 0 is padding.
        padded: sizes that padding may lengthen; by default the last axes of the masks.
        left_out: property → why this layer does not have it; the names are those of `PROPERTIES`.
        half_bound: how many times the bounds of rounding the layer needs: 1 for one step of arithmetic, more for steps
            that build on each other.
    """

    name: str
    layer: type
    options: Mapping
    sizes: Mapping[str, int]
    arrays: Mapping[str, tuple]
    masks: Mapping[str, tuple]
    outputs: Mapping[str, tuple]
    weights: Mapping[str, tuple]
    looks_at: Mapping[str, str]
    call: Callable
    reference: Callable
    asked_by: Mapping[str, str] = field(default_factory=dict)
    ints: Mapping[str, tuple] = field(default_factory=dict)
    padded: tuple[str, ...] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    half_bound: float = 1.0

    def make(self, **more):
        return self.layer(**{**self.options, **more})

    def shape(self, axes, sizes=None):
        """The shape of axes, with some sizes replaced."""
        sizes = {**self.sizes, **(sizes or {})}
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in axes)

    def draw(self, seed=2, dtype="float32", **sizes):
        """Random inputs by name: floats from a normal distribution, ids from 1 up."""
        rng = np.random.default_rng(seed)
        drawn = {name: rng.normal(size=self.shape(axes, sizes)).astype(dtype) for name, axes in self.arrays.items()}
        for name, (axes, bound) in self.ints.items():
            drawn[name] = rng.integers(1, bound, size=self.shape(axes, sizes)).astype("int32")
        return drawn

    def draw_masks(self, **sizes):
        """A mask of each name that drops the end of some rows, another number in each, and keeps their first."""
        masks = {}
        for place, (name, axes) in enumerate(self.masks.items()):
            shape = self.shape(axes, sizes)
            rows = np.arange(np.prod(shape[:-1], dtype=int)).reshape(shape[:-1])
            dropped = np.minimum((rows + place + 1) % 3, shape[-1] - 1)
            masks[name] = np.arange(shape[-1]) < (shape[-1] - dropped)[..., None]
        return masks

    def needs(self, name):
        """Skips the test of a property that this layer does not have."""
        if name in self.left_out:
            pytest.skip(self.left_out[name])

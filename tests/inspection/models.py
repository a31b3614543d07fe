"""What the tests of `attention_maps` have in common."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from tests.backends import to_float64

WIDTH = 6


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def array(tensor):
    return to_float64(tensor)


def weights_of(examples, place=0):
    """The weights of one map of all examples, (B, …)."""
    return np.stack([maps[place].weights for maps in examples])


def names(examples):
    """The names of the maps, which are the same for all examples."""
    every = [[one.name for one in maps] for maps in examples]
    assert all(some == every[0] for some in every)
    return every[0]


class Kept(keras.layers.Layer):
    """Keeps what passes through it in eager calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seen = []

    def call(self, inputs):
        self.seen.append(ops.convert_to_numpy(inputs))
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape


class Calling(keras.Model):
    """A subclassed model of one function, `call(*layers, inputs)`."""

    def __init__(self, function, *layers, **kwargs):
        super().__init__(**kwargs)
        self.function, self.parts = function, list(layers)

    def call(self, inputs):
        return self.function(*self.parts, inputs)

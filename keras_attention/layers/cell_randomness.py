"""Random numbers of a cell: they follow from a seed and a step in its state, and no generator moves inside a loop.

On JAX a loop must not change a variable, and a generator is one. So a seed is drawn before the loop and carried.
"""

from __future__ import annotations

import contextlib

import keras
from keras import ops

__all__ = ["draw_seed", "draws", "forget_masks", "seeded", "unmoved"]

_SEEDS = 2**24  # how many seeds there are: as many as float32, in which states travel, can tell apart
_DRAWS = 64  # random tensors that one attention may need a step


def draws(cell, attention):
    """Whether training needs random numbers: whether the attention has a generator, or an inner cell drops."""
    rates = [getattr(one, name, 0) for one in inner_cells(cell) for name in ("dropout", "recurrent_dropout")]
    return bool(_generators(attention)) or any(rate > 0 for rate in rates)


def draw_seed(generator):
    """A seed for one sequence, int32 ()."""
    return ops.cast(keras.random.randint((), 0, _SEEDS, seed=generator), "int32")


def inner_cells(cell):
    """The cells of a stack, or the one cell."""
    stack = getattr(cell, "cells", None)
    return [cell] if stack is None else [one for below in stack for one in inner_cells(below)]


def forget_masks(cell):
    """Lets go of the dropout masks that Keras' cells keep: `seeded` gives the same ones at each step of a sequence."""
    for one in inner_cells(cell):
        if hasattr(one, "reset_dropout_mask"):
            one.reset_dropout_mask()
            one.reset_recurrent_dropout_mask()


def seeded(owner, seed, step):
    """A context: the random numbers of the inner cell follow from the seed, those of the attention from seed and step.

    Args:
        owner: the `AttentionCell`.
        seed: int32 (B,), the same in each row, or None for a context that does nothing.
        step: int32 (B,).
    """
    if seed is None:
        return contextlib.nullcontext()
    # Rows may be masked, but a step in which no row moves is no step.
    clock = ops.sum(step)
    values = {}
    for number, generator in enumerate(_generators(owner.cell)):
        values[id(generator)] = _state(generator, seed[0] + _SEEDS * number, 0)
    for number, generator in enumerate(_generators(owner.attention)):
        values[id(generator)] = _state(generator, seed[0] + _SEEDS * (64 + number), clock * _DRAWS)
    return _scope(owner, values)


def unmoved(attention):
    """A context after which the generators of the attention are where they were."""
    return _scope(attention) if _generators(attention) else contextlib.nullcontext()


def _scope(layer, values=None):
    """A context in which the variables of a layer keep their values, or have those given by id."""
    values = values or {}
    return keras.StatelessScope([(one, values.get(id(one), one.value)) for one in layer.variables])


def _state(generator, *words):
    return ops.stack([ops.cast(word, generator.dtype) for word in words])


def _generators(layer):
    """The variables of the layer's `keras.random.SeedGenerator`s: all that it does not count as weights."""
    weights = {id(weight) for weight in layer.weights}
    return [variable for variable in layer.variables if id(variable) not in weights]

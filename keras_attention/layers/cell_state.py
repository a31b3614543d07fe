"""`CellState`: what a decoder cell carries, and its way into flat tensors and back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers.attention_layer import PreparedKeys

__all__ = ["CellState", "as_columns", "flat", "from_columns"]


class CellState(NamedTuple):
    """What a cell carries from step to step, as `cell.unpack` shows it. Every leaf has B first.

    Attributes:
        output: float (B, O). The last output, without weights; 0 before the first step.
        cell: the states of the inner cell, a flat list of float (B, units).
        context: float (B, Dv). The last context; 0 before the first step.
        step: int32 (B,). How many steps were made; masked ones do not count.
        seed: int32 (B,). What random numbers of training follow from, or None where the cell needs none.
        attention: the state of the attention, as its `attend` takes it.
        prepared: the `PreparedKeys`.
    """

    output: Any
    cell: Any
    context: Any
    step: Any
    seed: Any
    attention: Any
    prepared: PreparedKeys


def flat(tensor):
    """(B, …) → (B, n)."""
    batch, *sizes = ops.shape(tensor)
    return ops.reshape(tensor, (batch, math.prod(sizes)))


def as_columns(nested, dtype):
    """The leaves (B, …) of nested tensors side by side as floats, (B, n).

    An int goes as two numbers of 16 bits, for float32 holds only 24.
    """
    columns = []
    for leaf in keras.tree.flatten(nested):
        halves = [leaf]
        if _is_int(leaf):
            high = ops.floor_divide(leaf, 2**16)
            halves = [high, leaf - high * 2**16]
        columns += [ops.cast(flat(half), dtype) for half in halves]
    return ops.concatenate(columns, axis=-1)


def from_columns(template, columns):
    """What `as_columns` was given: columns (B, n) → nested tensors in the shapes and dtypes of the template."""
    leaves, end = [], 0
    for leaf in keras.tree.flatten(template):
        shape, parts = (ops.shape(columns)[0], *ops.shape(leaf)[1:]), []
        for _ in range(1 + _is_int(leaf)):
            start, end = end, end + math.prod(shape[1:])
            parts.append(ops.cast(ops.reshape(columns[:, start:end], shape), leaf.dtype))
        leaves.append(parts[0] * 2**16 + parts[1] if len(parts) > 1 else parts[0])
    return keras.tree.pack_sequence_as(template, leaves)


def _is_int(tensor):
    return "int" in keras.backend.standardize_dtype(tensor.dtype)

"""`Recorder`: what was heard during one call of a model."""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attention.inspection.eager import is_symbolic

__all__ = ["LayerCall", "Recorder", "equal"]


@dataclass
class LayerCall:
    """The weights of one call of a layer, or of one step.

    Attributes:
        layer: the Keras layer.
        number: int, which call; all steps of a loop have the same.
        weights: name → float32 (B, …); the name is "" where a layer gives one array of weights.
        is_step: bool. Whether `weights` lack the axis of the queries, which the steps will make.
    """

    layer: Any
    number: int
    weights: dict[str, np.ndarray]
    is_step: bool = False


class Recorder:
    """Collects the weights of the layers that are intercepted; hears only the thread that made it."""

    def __init__(self):
        self.records: list[LayerCall] = []
        self.problems: dict[str, None] = {}  # an ordered set
        self._thread = threading.get_ident()
        self._inside: list[Any] = []  # the layers in whose calls this is
        self._is_muted = False
        self._numbers = itertools.count()
        self._is_looping = False
        self._last_steps: dict[int, tuple] = {}  # id of a layer → number, keys and shapes of its last step

    def hears(self, layer, is_step=False) -> bool:
        """Whether what a layer does now is to be recorded.

        Not what it does inside of its own call, and no steps inside of a call that reports for all of them.
        """
        if threading.get_ident() != self._thread or self._is_muted:
            return False
        return not (self._inside if is_step else any(one is layer for one in self._inside))

    @contextlib.contextmanager
    def inside(self, layer):
        """A call of a layer that reports itself what it did."""
        self._inside.append(layer)
        try:
            yield
        finally:
            self._inside.pop()

    @contextlib.contextmanager
    def muted(self):
        """A part of the call that is only for show."""
        before, self._is_muted = self._is_muted, True
        try:
            yield
        finally:
            self._is_muted = before

    @contextlib.contextmanager
    def loop(self):
        """All steps in here belong together, and to none outside."""
        before, self._is_looping = self._is_looping, True
        self._last_steps.clear()
        try:
            yield
        finally:
            self._is_looping = before
            self._last_steps.clear()

    def add(self, layer, weights, since=None):
        """Records one call: weights, or nested weights, (B, …). `since` is how many records there were before it."""
        named = self._as_arrays(layer, weights)
        if named:
            self._drop_retold(named, since)
            self.records.append(LayerCall(layer, next(self._numbers), named))

    def add_step(self, layer, weights, keys=None, begins=False, since=None):
        """Records one step: weights, or nested weights, (B, …, Tv).

        `keys` are the prepared keys, or a cache of those so far, which has a `length`; `begins`: the first of a loop.
        """
        named = self._as_arrays(layer, weights)
        if not named:
            return
        self._drop_retold(named, since)
        shapes = {name: array.shape for name, array in named.items()}
        number, last_keys, last_shapes = self._last_steps.get(id(layer), (None, None, None))
        begins = begins and not self._is_looping
        if shapes != last_shapes or begins or not _continues(keys, last_keys, self._is_looping):
            number = next(self._numbers)
        self._last_steps[id(layer)] = (number, keys, shapes)
        self.records.append(LayerCall(layer, number, named, is_step=True))

    def _drop_retold(self, named, since):
        """Takes out what layers inside of a call reported, if the call reports the same numbers itself."""
        if since is None:
            return
        told = list(named.values())
        inside = [record for record in self.records[since:] if not _retold(record, told)]
        self.records[since:] = inside

    def fail(self, layer, what):
        """Notes why a layer has no map. It is raised after the call, without what Keras adds to errors on the way."""
        where = layer.path or layer.name
        self.problems[f"The layer {where!r} ({type(layer).__name__}) {what}"] = None

    def problem_text(self) -> str:
        return "\n".join(self.problems)

    def calls(self) -> list[LayerCall]:
        """The calls in order, the steps of a loop stacked: weights (B, …, Tv) of Tq steps → (B, …, Tq, Tv)."""
        groups: dict[int, list[LayerCall]] = {}
        for record in self.records:
            groups.setdefault(record.number, []).append(record)
        return [_stacked(group) if group[0].is_step else group[0] for group in groups.values()]

    def _as_arrays(self, layer, weights):
        named = dict(_leaves(weights))
        if not named:
            self.fail(
                layer, "gave no weights. Expected some with return_attention_scores=True. Leave it out of the model."
            )
        if any(is_symbolic(tensor) for tensor in named.values()):
            self.fail(
                layer,
                "was called inside a graph, where weights have no values. Expected an eager call. Call it outside of "
                "functions that always trace, such as vectorized_map, jax.vmap, jax.grad or jax.checkpoint.",
            )
            return {}
        arrays = {name: _as_array(tensor) for name, tensor in named.items()}
        if any(array.ndim < 2 for array in arrays.values()):
            shapes = ", ".join(str(array.shape) for array in arrays.values())
            self.fail(layer, f"gave weights of shape {shapes}. Expected the batch first: (B, T), (B, Tq, Tv) or more.")
            return {}
        return arrays


def _as_array(tensor):
    from keras import ops

    return np.asarray(ops.convert_to_numpy(tensor)).astype(np.float32)


def _leaves(weights, name=""):
    """Nested weights as pairs of name and tensor: the name of a key, a field or an index, "" of a single one."""
    if weights is None:
        return
    if isinstance(weights, dict):
        pairs = weights.items()
    elif hasattr(weights, "_fields"):
        pairs = zip(weights._fields, weights, strict=True)
    elif isinstance(weights, (list, tuple)):
        pairs = enumerate(weights)
    else:
        yield name, weights
        return
    for key, inner in pairs:
        yield from _leaves(inner, f"{name}/{key}" if name else str(key))


def equal(keys, others):
    """Whether two nests of tensors hold the same values."""
    from keras import ops, tree

    keys, others = tree.flatten(keys), tree.flatten(others)
    if [getattr(one, "shape", None) for one in keys] != [getattr(one, "shape", None) for one in others]:
        return False
    return all(one is other or bool(ops.all(ops.equal(one, other))) for one, other in zip(keys, others, strict=True))


def _continues(keys, last, is_looping):
    """Whether a step belongs to the one before it: it has the same keys, or a cache that grew."""
    from keras import ops

    if not (hasattr(keys, "length") and hasattr(last, "length")):
        return equal(keys, last)
    grown = ops.convert_to_numpy(keys.length) - ops.convert_to_numpy(last.length)
    return bool((grown >= 0).all() and (is_looping or (grown > 0).any()))


def _retold(record, told):
    """Whether each of the weights of a record is one of others, or one head or hop of them."""
    return all(any(_is_part(array, other) for other in told) for array in record.weights.values())


def _is_part(array, whole):
    """Whether `array` (n, …) is, in whatever shape, `whole` (B, …) or one index of the axis behind its batch."""
    batch = len(whole)
    if array.size == 0 or array.size % batch or whole.size % array.size:
        return False
    one, parts = array.reshape(batch, 1, -1), whole.reshape(batch, -1, array.size // batch)
    return bool((one == parts).all(axis=(0, 2)).any())


def _stacked(steps):
    first = steps[0]
    weights = {name: np.stack([step.weights[name] for step in steps], axis=-2) for name in first.weights}
    return LayerCall(first.layer, first.number, weights)

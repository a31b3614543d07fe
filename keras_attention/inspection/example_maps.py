"""From the weights of a batch to the labelled maps of each example."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from keras_attention.maps import AttentionMap

__all__ = ["example_maps"]


def example_maps(calls, batch_size=None, rows=None, columns=None) -> list[list[AttentionMap]]:
    """One list of maps for each example.

    Args:
        calls: list of `LayerCall`, in order.
        batch_size: int, B, or None for as many as the first weights have.
        rows, columns: see `attention_maps`.
    """
    batch_size = len(next(iter(calls[0].weights.values()))) if batch_size is None else batch_size
    examples: list[list[AttentionMap]] = [[] for _ in range(batch_size)]
    known = set()
    for call, call_name in zip(calls, _call_names(calls), strict=True):
        layer = call.layer
        for part, weights in _named_parts(layer, call.weights):
            name = f"{call_name}/{part}" if part else call_name
            known |= {name, layer.name}
            weights, axes, has_rows = _by_example(layer, part, weights, batch_size)
            for place, maps in enumerate(examples):
                row_labels = _labels("rows", rows, place, batch_size, name, layer.name, has_rows)
                column_labels = _labels("columns", columns, place, batch_size, name, layer.name)
                maps.append(_map(name, layer, weights[place], row_labels, column_labels, axes))
    for side, labels in (("rows", rows), ("columns", columns)):
        unknown = sorted(set(labels) - known) if isinstance(labels, Mapping) else []
        if unknown:
            raise ValueError(
                f"`{side}` names {unknown}, which gave no maps. Expected names among {sorted(known)}. "
                f"Pass a dict from these to one list of tokens for each example."
            )
    return examples


def _named_parts(layer, weights):
    """The weights of a call by name: by the names in the layer's `weights_axes`, where it has as many."""
    declared = getattr(layer, "weights_axes", None)
    names = list(declared) if isinstance(declared, Mapping) else []
    return zip(names if len(names) == len(weights) else weights, weights.values(), strict=True)


def _call_names(calls):
    """The names of calls: of the layer, or its path where layers share a name; numbered where it was called again."""
    layers = {id(call.layer): call.layer for call in calls}
    shared = Counter(layer.name for layer in layers.values())
    total, so_far = Counter(id(call.layer) for call in calls), Counter()
    for call in calls:
        layer, key = call.layer, id(call.layer)
        name = layer.name if shared[layer.name] == 1 else layer.path
        yield f"{name}[call={so_far[key]}]" if total[key] > 1 else name
        so_far[key] += 1


def _by_example(layer, part, weights, batch_size):
    """Weights (n, …) → (B, …, rows, columns), the names of the axes between, and whether there was one of rows."""
    axes = _leading_axes(layer, part, weights.ndim)
    has_rows = weights.ndim - len(axes) == 3
    if weights.shape[0] == 1 and batch_size > 1:  # one for all, as over a memory that is no input
        weights = np.repeat(weights, batch_size, axis=0)
    elif weights.shape[0] != batch_size:
        if weights.shape[0] % batch_size:
            raise ValueError(
                f"The layer {layer.name!r} saw {weights.shape[0]} rows for {batch_size} examples. Expected as many, or "
                f"a multiple. Pass one example, whose maps then have them all."
            )
        weights = weights.reshape(batch_size, -1, *weights.shape[1:])
        if has_rows or axes:
            axes = ("part", *axes)
        else:
            has_rows = True
    return (weights if has_rows else weights[..., None, :]), axes, has_rows


def _leading_axes(layer, part, rank):
    """The names of the axes between the batch and the rows."""
    declared = getattr(layer, "weights_axes", None)
    if isinstance(declared, Mapping):
        declared = declared.get(part)
    if declared is None:
        if rank <= 3:
            return ()
        per_channel = getattr(getattr(layer, "score", None), "per_channel", False)
        more = [f"axis_{place}" for place in range(1, rank - 3)]
        return (*more, "channel" if per_channel else "head")
    if rank - 1 - len(declared) not in (1, 2):
        raise ValueError(
            f"The layer {layer.name!r} gave weights of rank {rank}, and its `weights_axes` are {tuple(declared)}. "
            f"Expected the batch, these, and (rows, columns) or (columns,). Name the axes between in `weights_axes`."
        )
    return tuple(declared)


def _labels(side, labels, place, batch_size, name, layer_name, has_axis=True):
    """The labels of one side of a map, or None for positions."""
    if isinstance(labels, Mapping):
        labels = labels.get(name, labels.get(layer_name))
    elif not has_axis:
        return None
    if labels is None:
        return None
    if isinstance(labels, str) or len(labels) != batch_size:
        raise ValueError(
            f"`{side}` has {'one text' if isinstance(labels, str) else f'{len(labels)} lists'} for {batch_size} "
            f"examples. Expected one list of tokens for each example. "
            f"Pass e.g. `{side}=[text.split() for text in texts]`."
        )
    return labels[place]


def _map(name, layer, weights, rows, columns, axes):
    weights, rows = _cut("rows", name, weights, rows, -2)
    weights, columns = _cut("columns", name, weights, columns, -1)
    kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(layer).__name__).lower()
    try:
        return AttentionMap(name, layer.path or layer.name, kind, weights, rows, columns, axes)
    except ValueError as error:
        raise ValueError(f"The layer {layer.name!r} gave no attention map. {error}") from error


def _cut(side, name, weights, labels, axis):
    """Weights and labels of the same length; positions where there are no labels."""
    count = weights.shape[axis]
    if labels is None:
        return weights, [str(place) for place in range(count)]
    if isinstance(labels, str):
        return weights, labels  # AttentionMap refuses it, and says what it wants
    if len(labels) > count:
        raise ValueError(
            f"`{side}` has {len(labels)} labels for the {count} {side} of {name!r}. Expected at most as many. "
            f"Give each map its own: a dict from names of maps or layers to one list of tokens for each example."
        )
    return np.take(weights, range(len(labels)), axis=axis), labels

"""What the decoder cells check of their parts."""

from __future__ import annotations

import copy

import keras

from keras_attention.layers.attention_layer import AttentionLayer

__all__ = ["checked_attention", "checked_cell", "config_of", "may_be", "place_of_output", "revived"]


def checked_cell(cell):
    """The inner cell where it is one; else a TypeError that says what is."""
    if isinstance(cell, keras.layers.Layer) and not isinstance(cell, keras.layers.RNN):
        sizes = keras.tree.flatten(getattr(cell, "state_size", None))
        if all(isinstance(size, int) for size in sizes):
            return cell
    hint = "a GRU or LSTM layer has one as its `cell`, and several go into keras.layers.StackedRNNCells"
    raise TypeError(f"`cell` must be an RNN cell such as keras.layers.GRUCell(256); {hint}. Received {cell!r}.")


def place_of_output(cell):
    """Which of the cell's states, flat, is its output: the first, of a stack the first of the last cell.

    Keras' RNN takes that for granted in places, too; a cell that says otherwise is refused.
    """
    sizes = cell.state_size
    flat = keras.tree.flatten(sizes)
    place = len(flat) - len(keras.tree.flatten(sizes[-1])) if hasattr(cell, "cells") else 0
    output_size = getattr(cell, "output_size", flat[place])
    if output_size != flat[place]:
        raise ValueError(
            f"The first state of the inner cell must be its output. Received a {type(cell).__name__} with "
            f"state_size={sizes} and output_size={output_size}. Let it carry its output as its first state."
        )
    return place


def checked_attention(attention):
    if not isinstance(attention, AttentionLayer):
        raise TypeError(
            f"`attention` must be an AttentionLayer such as LuongAttention('general'), which can attend step by step. "
            f"Received {attention!r}."
        )
    return attention


def revived(layer):
    """A layer from its config, or as it is given."""
    if not isinstance(layer, dict):
        return layer
    return keras.saving.deserialize_keras_object(copy.deepcopy(layer))  # Keras' stack of cells takes from what it gets


def config_of(layer):
    """The config of a part: without its shapes, so that the whole builds it again and its weights keep their paths."""
    return _unbuilt(keras.saving.serialize_keras_object(layer))


def _unbuilt(config):
    if isinstance(config, dict):
        return {name: _unbuilt(one) for name, one in config.items() if name != "build_config"}
    return [_unbuilt(one) for one in config] if isinstance(config, list) else config


def may_be(shape, expected):
    """Whether a shape is as expected, where both are known."""
    return len(shape) == len(expected) and all(
        None in pair or pair[0] == pair[1] for pair in zip(shape, expected, strict=True)
    )

"""A decoder's step projects no keys: counted among the products of its TensorFlow graph."""

from __future__ import annotations

import keras
import pytest

from keras_attention import layers
from tests.backends import BACKEND

pytestmark = pytest.mark.skipif(BACKEND != "tensorflow", reason="it reads a graph of TensorFlow")

BATCH, QUERY, VALUE, PLACES, UNITS = 2, 5, 3, 37, 11  # no product of two of them is a third

# Not among them: location-aware scores, whose step filters the weights of the step before into a vector for each place.
STEPPING = {
    "bahdanau": lambda: layers.BahdanauAttention(UNITS),
    "luong general": lambda: layers.LuongAttention("general"),
    "luong concat": lambda: layers.LuongAttention("concat", units=UNITS),
    "luong mlp": lambda: layers.LuongAttention("mlp", units=UNITS),
    "coverage": lambda: layers.CoverageAttention(UNITS),
    "monotonic": lambda: layers.MonotonicAttention(score="additive", units=UNITS),
    "hard": lambda: layers.HardAttention(score="additive", units=UNITS),
    "local": lambda: layers.LocalAttention(2, score="additive", units=UNITS),
}


def key_products(function, *arguments):
    """The products of a graph that give a vector for each place: names of those ops."""
    import tensorflow as tf  # the other backends run without it

    widths = {UNITS, QUERY, VALUE}
    found = []
    for op in tf.function(function).get_concrete_function(*arguments).graph.get_operations():
        if "MatMul" in op.type or op.type == "Einsum":
            shape = op.outputs[0].shape.as_list()
            if shape[-1] in widths and any(length in (PLACES, BATCH * PLACES) for length in shape[:-1]):
                found.append(op.name)
    return found


@pytest.mark.parametrize("name", STEPPING)
def test_a_step_projects_no_keys(name):
    layer = STEPPING[name]()
    query, value = keras.ops.ones((BATCH, QUERY)), keras.ops.ones((BATCH, PLACES, VALUE))
    layer([query[:, None], value])
    assert len(key_products(layer.prepare, value)) == 1
    prepared = layer.prepare(value)
    assert key_products(layer.attend, query, prepared, layer.initial_state(prepared)) == []


def test_a_step_of_local_attention_with_a_general_score_projects_its_query_instead():
    layer = layers.LocalAttention(2, score="general")
    query, value = keras.ops.ones((BATCH, QUERY)), keras.ops.ones((BATCH, PLACES, VALUE))
    layer([query[:, None], value])
    assert key_products(layer.prepare, value) == []
    prepared = layer.prepare(value)
    assert key_products(layer.attend, query, prepared, layer.initial_state(prepared)) == []

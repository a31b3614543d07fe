"""The table of all public attention layers. `test_conformance*.py` run each row through each property.

A new layer gets a row here, with a reference written from its paper; a property that its paper breaks goes into the
row's `left_out`, with the reason, and shows up as a skip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from keras_attention import layers
from tests import reference
from tests.backends import to_float64

# Bases without a mechanism of their own.
ABSTRACT = {"AttentionLayer", "SoftAttention"}

BATCH, QUERY_LENGTH, VALUE_LENGTH = 2, 3, 5
QUERY_DIM, VALUE_DIM, KEY_DIM = 7, 6, 4


def soft(score):
    """The reference of a soft attention: softmax over `score` of each pair."""

    def weights_of(query, key, mask, weights):
        return reference.masked_softmax(reference.score_matrix(score, query, key, weights), mask)

    return weights_of


@dataclass(frozen=True)
class Row:
    """One layer in one configuration.

    Attributes:
        name: of the test.
        layer: the class.
        options: its arguments.
        reference: query (B, Tq, Dq), key (B, Tv, Dk), mask (B, Tq, Tv), the layer's own weights by name → weights
            (B, Tq, Tv).
        key_dim: Dk; the scores without a matrix need Dk = Dq.
        left_out: property → why this layer does not have it.
    """

    name: str
    layer: type
    options: Mapping
    reference: Callable
    key_dim: int = KEY_DIM
    left_out: Mapping = field(default_factory=dict)

    def make(self, **more):
        return self.layer(**{**self.options, **more})

    def build(self, *, width=None, seed=1, **more):
        """A built layer whose weights all differ; `width` makes query, value and key that wide."""
        layer = self.make(**more)
        sizes = (width,) * 3 if width else (QUERY_DIM, VALUE_DIM, self.key_dim)
        layer.build([(None, None, size) for size in sizes])
        give_values(layer, seed)
        return layer

    def draw(self, batch=BATCH, query_length=QUERY_LENGTH, value_length=VALUE_LENGTH, *, seed=2, dtype="float32"):
        """Random [query, value, key]."""
        rng = np.random.default_rng(seed)
        shapes = (
            (batch, query_length, QUERY_DIM),
            (batch, value_length, VALUE_DIM),
            (batch, value_length, self.key_dim),
        )
        return [rng.normal(size=shape).astype(dtype) for shape in shapes]

    def expect(self, layer, inputs, mask=None):
        """What the reference makes of it: context, weights."""
        query, value, key = (np.asarray(one, "float64") for one in inputs)
        if mask is None:
            mask = np.ones((*query.shape[:2], value.shape[1]), bool)
        weights = self.reference(query, key, mask, {w.name: to_float64(w) for w in layer.weights})
        return reference.context(weights, value), weights

    def needs(self, name):
        """Skips the test of a property that this layer does not have."""
        if name in self.left_out:
            pytest.skip(self.left_out[name])


TABLE = [
    Row("bahdanau", layers.BahdanauAttention, {"units": 8}, soft(reference.additive)),
    Row(
        "bahdanau_normalized",
        layers.BahdanauAttention,
        {"units": 8, "use_bias": True, "normalize": True},
        soft(reference.normalized_additive),
    ),
    Row("luong_dot", layers.LuongAttention, {"score": "dot"}, soft(reference.dot), QUERY_DIM),
    Row("luong_scaled_dot", layers.LuongAttention, {"score": "scaled_dot"}, soft(reference.scaled_dot), QUERY_DIM),
    Row("luong_general", layers.LuongAttention, {"score": "general"}, soft(reference.general)),
    Row("luong_concat", layers.LuongAttention, {"score": "concat", "units": 8}, soft(reference.concat)),
]

each_row = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


def give_values(layer, seed):
    """Another random value for each weight, of either sign, none near 0."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.uniform(0.3, 0.9, weight.shape) * rng.choice([-1.0, 1.0], weight.shape))


def attend(layer, inputs, **arguments):
    """The layer's context and weights, as float64 arrays."""
    context, weights = layer(inputs, return_attention_scores=True, **arguments)
    return to_float64(context), to_float64(weights)


def masks(batch=BATCH, query_length=QUERY_LENGTH, value_length=VALUE_LENGTH, seed=3):
    """query_mask, value_mask, attention_mask: each drops something, and each row of values keeps its first."""
    rng = np.random.default_rng(seed)
    query_mask = np.ones((batch, query_length), bool)
    query_mask[0, -1] = False
    lengths = value_length - 2 * (np.arange(batch) % 2 == 0)
    value_mask = np.arange(value_length) < lengths[:, None]
    attention_mask = rng.random((batch, query_length, value_length)) < 0.6
    attention_mask[..., 0] = True
    return query_mask, value_mask, attention_mask

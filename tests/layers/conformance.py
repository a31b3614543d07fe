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


def soft(score, align=reference.masked_softmax):
    """The reference of a soft attention: softmax, or another alignment, over `score` of each pair."""

    def weights_of(query, key, mask, weights, lengths):
        return align(reference.score_matrix(score, query, key, weights), mask)

    return weights_of


def of_channels(score):
    """The reference of an attention with weights for each channel."""

    def weights_of(query, key, mask, weights, lengths):
        return reference.masked_softmax(reference.channel_scores(score, query, key, weights), mask[:, None])

    return weights_of


def location(query, key, mask, weights, lengths):
    return reference.masked_softmax(reference.location(query, weights)[..., : mask.shape[-1]], mask)


def coverage(query, key, mask, weights, lengths):
    return reference.coverage(query, key, mask, weights)


def location_aware(query, key, mask, weights, lengths):
    return reference.location_aware(query, key, mask, weights)


def monotonic(align):
    """The reference of a monotonic attention with an additive score."""

    def scores(query, keys, previous, weights):
        return np.array([reference.additive(query, key, weights) for key in keys])

    def weights_of(query, key, mask, weights, lengths):
        return reference.monotonic(scores, query, key, mask, weights, align)

    return weights_of


def local(score, radius, predictive):
    """The reference of a local attention."""

    def weights_of(query, key, mask, weights, lengths):
        return reference.local(score, query, key, mask, weights, lengths, radius, predictive)

    return weights_of


@dataclass(frozen=True)
class Row:
    """One layer in one configuration.

    Attributes:
        name: of the test.
        layer: the class.
        options: its arguments.
        reference: query (B, Tq, Dq), key (B, Tv, Dk), mask (B, Tq, Tv), the layer's own weights by name, lengths (B,)
            → weights (B, Tq, Tv).
        key_dim: Dk; the scores without a matrix need Dk = Dq.
        per_channel: whether the weights are (B, Dv, Tq, Tv).
        left_out: property → why this layer does not have it.
    """

    name: str
    layer: type
    options: Mapping
    reference: Callable
    key_dim: int = KEY_DIM
    left_out: Mapping = field(default_factory=dict)
    per_channel: bool = False

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

    def expect(self, layer, inputs, masked=None):
        """What the reference makes of it under these masks, as `reference.full_mask` takes them: context, weights."""
        query, value, key = (np.asarray(one, "float64") for one in inputs)
        masked = masked or {}
        mask = reference.full_mask((*query.shape[:2], value.shape[1]), **masked)
        kept = masked.get("value_mask", np.ones(value.shape[:2], bool))
        lengths = [int(np.flatnonzero(row)[-1]) + 1 if row.any() else 0 for row in kept]
        weights = self.reference(query, key, mask, {w.name: to_float64(w) for w in layer.weights}, lengths)
        return reference.context(weights, value), weights

    def weights_shape(self, batch=BATCH, query_length=QUERY_LENGTH, value_length=VALUE_LENGTH):
        channels = (VALUE_DIM,) if self.per_channel else ()
        return (batch, *channels, query_length, value_length)

    def used(self, of_inputs, of_weights=()):
        """Of gradients of query, value and key, and of the weights: those that the layer can have."""
        if "gradient of the score" in self.left_out:
            return [of_inputs[1]]
        return [*(of_inputs[:2] if "keys" in self.left_out else of_inputs), *of_weights]

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

TABLE += [
    Row("luong_cosine", layers.LuongAttention, {"score": "cosine"}, soft(reference.cosine), QUERY_DIM),
    Row("luong_mlp", layers.LuongAttention, {"score": "mlp", "units": 8}, soft(reference.mlp)),
    Row(
        "luong_sparsemax",
        layers.LuongAttention,
        {"score": "scaled_dot", "alignment": "sparsemax"},
        soft(reference.scaled_dot, reference.masked_sparsemax),
        QUERY_DIM,
        {"every kept place is seen": "sparse: low scores get exactly 0"},
    ),
    Row(
        "bahdanau_entmax15",
        layers.BahdanauAttention,
        {"units": 4, "normalize": True, "alignment": "entmax15"},
        soft(reference.normalized_additive, reference.masked_entmax15),
        left_out={"every kept place is seen": "sparse: low scores get exactly 0"},
    ),
    Row(
        "location",
        layers.LocationAttention,
        {"max_length": 11},
        location,
        left_out={"keys": "it has none", "permutation": "it weighs positions, not what stands there"},
    ),
    Row(
        "local_m",
        layers.LocalAttention,
        {"radius": 2, "position": "monotonic", "score": "general"},
        local(reference.general, 2, predictive=False),
        left_out={
            "permutation": "it looks at positions",
            "every kept place is seen": "it sees its window only",
        },
    ),
    Row(
        "local_p",
        layers.LocalAttention,
        {"radius": 2, "score": "concat", "units": 8, "position_units": 3},
        local(reference.additive, 2, predictive=True),
        left_out={
            "permutation": "it looks at positions",
            "every kept place is seen": "it sees its window only",
            "rows sum to 1": "Luong et al., 2015 do not normalise after the Gaussian",
        },
    ),
    Row(
        "multi_dim",
        layers.MultiDimAttention,
        {"units": 8},
        of_channels(reference.channel_additive),
        left_out={"one map": "its weights have a map a channel, those of Keras' layer one"},
        per_channel=True,
    ),
    Row(
        "multi_dim_bilinear",
        layers.MultiDimAttention,
        {"score": "channel_bilinear"},
        of_channels(reference.channel_bilinear),
        left_out={"one map": "its weights have a map a channel, those of Keras' layer one"},
        per_channel=True,
    ),
    *(
        Row(
            f"hard_{sample}",
            layers.HardAttention,
            {"score": "general", "sample": sample, "temperature": temperature},
            soft(reference.general, reference.masked_argmax),
            left_out={
                "every kept place is seen": "it looks at one",
                "gradient of the score": "the best place has none; test_hard_attention.py has that of training",
                "the same weights in training": "there they are drawn",
            },
        )
        for sample, temperature in (
            ("straight_through", 0.7),
            ("gumbel_softmax", layers.ExponentialTemperature(2.0, 0.5, rate=0.1)),
        )
    ),
    Row("coverage", layers.CoverageAttention, {"units": 8}, coverage),
    Row(
        "luong_location_aware",
        layers.LuongAttention,
        {"score": "location_aware", "units": 8},
        location_aware,
        left_out={"permutation": "it sees the neighbours of a place"},
    ),
    Row(
        "monotonic_hard",
        layers.MonotonicAttention,
        {"units": 9},
        monotonic(reference.hard_monotonic),
        left_out={
            "permutation": "it runs from left to right",
            "every kept place is seen": "it looks at one",
            "rows sum to 1": "a query that passes the end reads nothing",
            "gradient of the score": "a place has none; test_monotonic_attention.py has that of training",
            "the same weights in training": "there they are expected ones, with noise",
        },
    ),
    Row(
        "monotonic_expected",
        layers.MonotonicAttention,
        {"units": 8, "noise": 0.0, "inference": "expected"},
        monotonic(reference.expected_monotonic),
        left_out={
            "permutation": "it runs from left to right",
            "rows sum to 1": "a query may pass the end",
        },
    ),
]

each_row = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)

HALVES = {"mixed_float16": 2e-3, "mixed_bfloat16": 1.5e-2}  # measured: up to 1.0e-3 and 7.2e-3 of the largest context


def give_values(layer, seed):
    """Another random value for each trainable weight, of either sign, none near 0."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(rng.uniform(0.3, 0.9, weight.shape) * rng.choice([-1.0, 1.0], weight.shape))


def attend(layer, inputs, **arguments):
    """The layer's context and weights, as float64 arrays."""
    context, weights = layer(inputs, return_attention_scores=True, **arguments)
    return to_float64(context), to_float64(weights)


def over_channels(mask, weights):
    """A mask (B, Tq, Tv) or (B, Tq) in the shape of weights (B, Tq, Tv), or (B, C, Tq, Tv), or of their rows."""
    shape = weights.shape[: weights.ndim - 3 + mask.ndim]
    return np.broadcast_to(mask if weights.ndim == 3 else mask[:, None], shape)


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


def contents(layer):
    """What hangs on a layer and on the layers inside it: attribute → which object, and how many items it holds."""
    return {
        (one.path, name): (id(held), len(held) if isinstance(held, (list, dict, set, tuple)) else None)
        for one in layer._flatten_layers()
        for name, held in vars(one).items()
        if name != "_called"  # Keras' own note
    }

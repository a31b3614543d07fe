"""The location-aware score: additive, and it sees where the query before looked."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.precision import at_least_float32, wide_range
from keras_attention.scores.base import Score, positive_int

__all__ = ["LocationAwareScore", "location_aware"]


def location_aware(projected_query, projected_key, previous, filters, location_kernel, scale):
    """`v · tanh(q' + k' + V f)` of one query, `f = F * a` the filtered weights of the query before it.

    Chorowski et al., 2015 (arXiv 1506.07503), section 2.2.

    Args:
        projected_query: float (B, U), `W q`.
        projected_key: float (B, Tv, U), `U k + b`.
        previous: float (B, Tv), `a`, the weights of the query before.
        filters: float (W, 1, F), `F`: F filters of width W, read as the kernel of `keras.layers.Conv1D` is.
        location_kernel: float (F, U), `V`.
        scale: float (U,), `v`.

    Returns:
        score (B, Tv).
    """
    dtype = projected_key.dtype
    features = ops.conv(
        ops.expand_dims(previous, -1), ops.cast(filters, previous.dtype), padding="same", data_format="channels_last"
    )  # (B, Tv, F), 0 beyond both ends
    located = ops.matmul(ops.cast(features, dtype), location_kernel)
    hidden = ops.tanh(projected_key + ops.expand_dims(projected_query, 1) + located)
    hidden, scale = wide_range(hidden, scale)
    return ops.einsum("bvu,u->bv", hidden, scale)


@keras.saving.register_keras_serializable("keras_attention")
class LocationAwareScore(Score):
    """`v · tanh(W q + U k + V f + b)`, where `f = F * a` are the weights of the query before, filtered.

    Chorowski et al., 2015 (arXiv 1506.07503), section 2.2. See `location_aware`. The score can tell equal keys apart by
    where they stand, and learns to move on. It runs in layers that go query by query: `LuongAttention` and
    `MonotonicAttention`; on TensorFlow such a loop has no gradient under XLA.
    Differs from the paper: it leaves open what the weights are before the first query; here they are 0.

    Args:
        units: int > 0. Width of the hidden layer.
        filters: int > 0. Number of filters.
        kernel_size: int > 0, positions. Width of a filter; 201 is usual for frames of speech, words want fewer.
    """

    has_memory = True

    def __init__(self, units, filters=10, kernel_size=201, **kwargs):
        super().__init__(**kwargs)
        self.units = positive_int("units", units)
        self.filters = positive_int("filters", filters)
        self.kernel_size = positive_int("kernel_size", kernel_size)

    def build(self, input_shape):
        query_shape, key_shape = input_shape
        self.query_kernel = self.add_weight(name="query_kernel", shape=(query_shape[-1], self.units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(key_shape[-1], self.units))
        # The weights to filter are in float32 in any precision, and so are the filters.
        self.filter_kernel = self.add_weight(
            name="filter_kernel", shape=(self.kernel_size, 1, self.filters), autocast=False
        )
        self.location_kernel = self.add_weight(name="location_kernel", shape=(self.filters, self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.scale = self.add_weight(
            name="scale", shape=(self.units,), initializer=keras.initializers.RandomUniform(-0.1, 0.1)
        )
        self.built = True

    def prepare_key(self, key):
        return ops.matmul(key, ops.cast(self.key_kernel, key.dtype)) + ops.cast(self.bias, key.dtype)

    def initial_memory(self, prepared_key):
        """The weights before the first query: 0, float (B, Tv)."""
        return at_least_float32(ops.zeros_like(prepared_key[..., 0]))

    def prepare_query(self, query, prepared_key):
        return ops.matmul(query, ops.cast(self.query_kernel, query.dtype))

    def score_step(self, prepared_query, prepared_key, memory):
        dtype = prepared_key.dtype
        location_kernel, scale = ops.cast(self.location_kernel, dtype), ops.cast(self.scale, dtype)
        return location_aware(prepared_query, prepared_key, memory, self.filter_kernel, location_kernel, scale)

    def remember(self, memory, weights):
        return weights

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "filters": self.filters,
            "kernel_size": self.kernel_size,
        }

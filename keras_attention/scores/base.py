"""What the score layers share."""

from __future__ import annotations

import keras

__all__ = ["Score", "positive_int"]


class Score(keras.layers.Layer):
    """Base of the score layers: `call([query, key])` is `score(query, prepare_key(key))`.

    A subclass gives `score`, and `prepare_key` where part of its work depends on the keys alone. `build` takes the two
    shapes.
    """

    per_channel = False  # whether `score` gives (B, C, Tq, Tv), one score a channel, instead of (B, Tq, Tv)

    def call(self, inputs):
        query, key = inputs
        return self.score(query, self.prepare_key(key))

    def prepare_key(self, key):
        """What depends on the keys alone, (B, Tv, …); the keys themselves by default."""
        return key

    def score(self, query, prepared_key):
        """Scores each query with each key: query (B, Tq, Dq), prepared key (B, Tv, …) → score (B, Tq, Tv)."""
        raise TypeError(f"{type(self).__name__} defines no `score(query, prepared_key)`. Every subclass of Score must.")

    def compute_output_shape(self, input_shape):
        query_shape, key_shape = input_shape
        return (query_shape[0], query_shape[1], key_shape[1])


def positive_int(name: str, value) -> int:
    """`value` where it is an int > 0; else a ValueError that says so."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be an int > 0. Received {value!r}.")
    return value

"""What the score layers share."""

from __future__ import annotations

import keras

__all__ = ["Score", "positive_int"]


class Score(keras.layers.Layer):
    """Base of the score layers: `call([query, key])` is `score(query, prepare_key(key))`.

    A subclass gives `score`, and `prepare_key` where part of its work depends on the keys alone. `build` takes the two
    shapes.

    A score that also depends on the weights of the queries before says `has_memory = True` and gives, in place of
    `score`, the four methods of the stepwise way: `initial_memory`, `prepare_query`, `score_step` and `remember`. The
    memory is a nest of tensors with B first. Of all other scores these methods lead to `score`, so that a layer that
    goes query by query anyway takes both kinds.

    `key_work` is for layers that read few of the keys: where it is not "unknown", keys taken from among others may be
    scored as they are, by `score_raw`; where it is "little", that is never dearer than preparing all keys first.
    """

    per_channel = False  # whether `score` gives (B, C, Tq, Tv), one score a channel, instead of (B, Tq, Tv)
    has_memory = False  # whether a query's scores depend on the weights of the queries before
    key_work = "unknown"  # what `prepare_key` costs: "unknown", "product" (one a key, each key alone), or "little"

    def call(self, inputs):
        query, key = inputs
        return self.score(query, self.prepare_key(key))

    def prepare_key(self, key):
        """What depends on the keys alone, (B, Tv, …); the keys themselves by default."""
        return key

    def score(self, query, prepared_key):
        """Scores each query with each key: query (B, Tq, Dq), prepared key (B, Tv, …) → score (B, Tq, Tv)."""
        if self.has_memory:
            raise TypeError(
                f"{type(self).__name__} scores one query after the other, each with the memory of the weights before. "
                f"Use it in a layer, LuongAttention or MonotonicAttention, or go through `score_step`."
            )
        raise TypeError(f"{type(self).__name__} defines no `score(query, prepared_key)`. Every subclass of Score must.")

    def score_raw(self, query, key):
        """`score(query, prepare_key(key))`, by whichever way is the cheapest for keys that meet no other query."""
        return self.score(query, self.prepare_key(key))

    def initial_memory(self, prepared_key):
        """The memory before the first query; none by default."""
        return ()

    def prepare_query(self, query, prepared_key):
        """What does not depend on the memory, for all queries at once: query (B, Tq, Dq) → (B, Tq, …)."""
        return self.score(query, prepared_key)

    def score_step(self, prepared_query, prepared_key, memory):
        """Scores one query: prepared query (B, …), prepared key (B, Tv, …), memory → score (B, Tv)."""
        return prepared_query

    def remember(self, memory, weights):
        """The memory for the next query: memory, weights of this one, float (B, Tv) → memory."""
        return memory

    def compute_output_shape(self, input_shape):
        query_shape, key_shape = input_shape
        return (query_shape[0], query_shape[1], key_shape[1])


def positive_int(name: str, value) -> int:
    """`value` where it is an int > 0; else a ValueError that says so."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be an int > 0. Received {value!r}.")
    return value

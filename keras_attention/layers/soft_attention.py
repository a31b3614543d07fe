"""`SoftAttention`: a score, an alignment, a weighted sum; and what all layers with a score share."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments, scores
from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys
from keras_attention.layers.query_loop import check_state, query_by_query

__all__ = ["ScoredAttention", "SoftAttention"]


class ScoredAttention(AttentionLayer):
    """Base of the layers that hold a score layer, `self.score`: `set_score` makes it from the user's arguments."""

    takes_memory = False  # whether the layer goes query by query where the score depends on the weights before

    def set_score(self, score, units):
        """Makes the score from its name, from its config, or takes it as it is given; see `scores.get`."""
        if isinstance(score, dict):
            score = keras.saving.deserialize_keras_object(score)
        self.score = scores.get(score, units=units, dtype=self.dtype_policy)
        self.score_name = score if isinstance(score, str) else None
        self.units = units
        if self.score.has_memory and not self.takes_memory:
            raise ValueError(
                f"{type(self).__name__} scores all queries at once, or apart from each other. "
                f"Received {type(self.score).__name__}, whose scores depend on the weights of the query before. "
                f"Use LuongAttention or MonotonicAttention, or another score."
            )
        if self.score.has_memory:  # a loop over the queries has no gradient under XLA there
            self.supports_jit = keras.backend.backend() != "tensorflow"

    def score_config(self):
        """The arguments of `set_score`, as plain JSON types."""
        score = self.score_name
        if score is None:
            score = keras.saving.serialize_keras_object(self.score)
            score.pop("build_config", None)  # built again by this layer, so that its weights keep their paths
        return {"score": score, "units": self.units}

    def build_scorer(self, query_shape, value_shape, key_shape):
        if self.score.per_channel:
            raise ValueError(
                f"{type(self).__name__} wants one score a pair of query and key, (B, Tq, Tv). "
                f"Received {type(self.score).__name__}, which gives one a channel. Use MultiDimAttention."
            )
        if not self.score.built:  # one that was given may be
            self.score.build([query_shape, key_shape])

    def prepare_key(self, key):
        return self.score.prepare_key(key)


class SoftAttention(ScoredAttention):
    """A score, an alignment, and a weighted sum: what `BahdanauAttention` and `LuongAttention` have in common.

    A subclass makes its score layer in the constructor, as `self.score`. Where that depends on the weights of the
    query before ("location_aware"), the queries are read one after the other, and `attend` carries the memory of the
    score in its state.

    Args:
        alignment: str ("softmax", "sparsemax", "entmax15", "argmax") or function of score (B, Tq, Tv) and mask →
            weights; see `keras_attention.alignments.get`.
        dropout, seed: as `AttentionLayer`.
    """

    takes_memory = True

    def __init__(self, alignment="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.alignment = alignments.get(alignment)

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Weights of the scores: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv)."""
        if not self.score.has_memory:
            return self.alignment(self.score.score(query, prepared.key), mask)

        def step(one, keep, memory):
            return self.remembering_step(one, prepared.key, keep, memory)

        queries = self.score.prepare_query(query, prepared.key)
        return query_by_query(step, self.initial_state(prepared), queries, mask, ops.shape(prepared.value)[1])

    def initial_state(self, prepared: PreparedKeys):
        """The memory of the score; nothing where it has none."""
        return self.score.initial_memory(prepared.key)

    def align_step(self, query, prepared: PreparedKeys, state, training=None):
        if not self.score.has_memory:
            return super().align_step(query, prepared, state, training)
        check_state(self, state)
        one = ops.squeeze(self.score.prepare_query(ops.expand_dims(query, 1), prepared.key), 1)
        return self.remembering_step(one, prepared.key, prepared.mask, state)

    def remembering_step(self, one, prepared_key, keep, memory):
        """One query, prepared (B, …), which places it may see, bool (B, Tv), memory → weights (B, Tv), memory."""
        score = self.score.score_step(one, prepared_key, memory)
        weights = ops.squeeze(self.alignment(ops.expand_dims(score, 1), ops.expand_dims(keep, 1)), 1)
        return weights, self.score.remember(memory, weights)

    def get_config(self):
        return {**super().get_config(), "alignment": alignments.serialize(self.alignment)}

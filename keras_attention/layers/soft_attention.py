"""`SoftAttention`: a score, an alignment, a weighted sum; and what all layers with a score share."""

from __future__ import annotations

import keras

from keras_attention import alignments, scores
from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys

__all__ = ["ScoredAttention", "SoftAttention"]


class ScoredAttention(AttentionLayer):
    """Base of the layers that hold a score layer, `self.score`: `set_score` makes it from the user's arguments."""

    def set_score(self, score, units):
        """Makes the score from its name, from its config, or takes it as it is given; see `scores.get`."""
        if isinstance(score, dict):
            score = keras.saving.deserialize_keras_object(score)
        self.score = scores.get(score, units=units, dtype=self.dtype_policy)
        self.score_name = score if isinstance(score, str) else None
        self.units = units

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

    A subclass makes its score layer in the constructor, as `self.score`.

    Args:
        alignment: str ("softmax", "sparsemax", "entmax15", "argmax") or function of score (B, Tq, Tv) and mask →
            weights; see `keras_attention.alignments.get`.
        dropout, seed: as `AttentionLayer`.
    """

    def __init__(self, alignment="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.alignment = alignments.get(alignment)

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Weights of the scores: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → (B, Tq, Tv)."""
        return self.alignment(self.score.score(query, prepared.key), mask)

    def get_config(self):
        return {**super().get_config(), "alignment": alignments.serialize(self.alignment)}

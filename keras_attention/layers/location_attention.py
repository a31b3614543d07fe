"""`LocationAttention`: where to look, from the query alone."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys
from keras_attention.precision import wide_range
from keras_attention.scores.base import positive_int

__all__ = ["LocationAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class LocationAttention(AttentionLayer):
    """Location-based attention: a weight for each position, whatever stands there.

    Luong et al., 2015 (arXiv 1508.04025), section 3.1: `a = softmax(W q)`, one row of W a position.
    Differs from the paper: the softmax runs over the positions that are kept, so that short rows sum to 1 too.

    Args:
        max_length: int > 0, positions. The longest Tv; a longer one is an error.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key is taken
            for the sake of the other layers, and not looked at.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.

    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout. Masked
        weights are exactly 0; a row with nothing to keep, or whose query is masked, is all 0.

    Raises:
        ValueError: `max_length` < 1, Tv > `max_length`, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = LocationAttention(max_length=9)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(self, max_length, dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.max_length = positive_int("max_length", max_length)

    def build_scorer(self, query_shape, value_shape, key_shape):
        self.kernel = self.add_weight(
            name="kernel", shape=(query_shape[-1], self.max_length), initializer="glorot_uniform"
        )

    def prepare(self, value, key=None, mask=None) -> PreparedKeys:
        """As `AttentionLayer.prepare`; as there are no keys, the mask stands in their place too."""
        length = value.shape[1]
        if length is not None and length > self.max_length:
            raise ValueError(
                f"The values are longer than the positions this layer has weights for. Received Tv = {length}, "
                f"max_length = {self.max_length}. Cut the values, or make the layer with a larger `max_length`."
            )
        prepared = super().prepare(value, key, mask)
        return prepared._replace(key=prepared.mask)

    def prepare_key(self, key):
        return key

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """`a = softmax(W q)`: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → weights (B, Tq, Tv)."""
        length = ops.shape(prepared.value)[1]
        query, kernel = wide_range(query, ops.cast(self.kernel, query.dtype))
        score = ops.matmul(query, kernel[:, :length])
        # Where only the running graph knows Tv, it is this reshape that refuses a Tv past max_length.
        score = ops.reshape(score, (*ops.shape(query)[:2], length))
        return alignments.softmax(score, mask)

    def get_config(self):
        return {**super().get_config(), "max_length": self.max_length}

"""`MultiDimAttention`: weights of its own for each channel of the values."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments, scores
from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys

__all__ = ["MultiDimAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class MultiDimAttention(AttentionLayer):
    """Multi-dimensional attention: a score for each channel of each key, so that channels look at different places.

    Shen et al., 2018 (arXiv 1709.04696), section 3.1: `Wᵀ σ(W₁ k + W₂ q + b₁)` has one number a channel of the value,
    softmax runs over the keys in each channel, and channel c of the context is `Σ a_c(s) v_c(s)`.
    Differs from the paper: no bias after W, which the softmax cancels; key and value may differ; and "channel_bilinear"
    scores with `tanh(qᵀ W_c k)` instead.

    Args:
        units: int > 0. Width of the hidden layer of "channel_additive"; refused by "channel_bilinear".
        score: "channel_additive" or "channel_bilinear".
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the dropout.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.

    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Dv, Tq, Tv), before dropout: the
        channel stands where heads do. Masked weights are exactly 0; a row with nothing to keep, or whose query is
        masked, is all 0. `attend` gives weights (B, Dv, Tv).

    Raises:
        ValueError: an unknown score or one without channels, `units` missing or not wanted, a wrong rank, or lengths
            or batches that differ.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = MultiDimAttention(units=16)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 6, 3, 5]))
    """

    def __init__(self, units=None, score="channel_additive", dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        scores.get(score, units=units, channels=1)  # refuses wrong arguments now; the channels are known when built
        self.units = units
        self.score_name = score

    def build_scorer(self, query_shape, value_shape, key_shape):
        self.score = scores.get(self.score_name, units=self.units, channels=value_shape[-1], dtype=self.dtype_policy)
        self.score.build([query_shape, key_shape])

    def prepare_key(self, key):
        return self.score.prepare_key(key)

    def align(self, query, prepared: PreparedKeys, mask, training=None):
        """Softmax in each channel: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) → weights (B, C, Tq, Tv)."""
        mask = None if mask is None else ops.expand_dims(mask, 1)
        return alignments.softmax(self.score.score(query, prepared.key), mask)

    def read(self, weights, value, training=None):
        """`c_c = a_c · v_c`: weights (B, C, Tq, Tv), value (B, Tv, C) → context (B, Tq, C)."""
        weights = ops.cast(self.drop(weights, training), value.dtype)
        return ops.einsum("bcqv,bvc->bqc", weights, value)

    def compute_weights_shape(self, query_shape, value_shape):
        return (query_shape[0], value_shape[-1], query_shape[1], value_shape[1])

    def get_config(self):
        return {**super().get_config(), "units": self.units, "score": self.score_name}

"""`LuongAttention`: multiplicative attention, or any other score."""

from __future__ import annotations

import keras

from keras_attention.layers.soft_attention import SoftAttention

__all__ = ["LuongAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class LuongAttention(SoftAttention):
    """Global attention with a score to choose: dot, general, concat, scaled dot, or a `Score` of your own.

    Luong et al., 2015 (arXiv 1508.04025), section 3.1, what follows equation 7:
    `dot: q · k`, `general: q · W k`, `concat: v · tanh(W [q; k])`; and `scaled_dot: q · k / √D` of Vaswani et al.,
    2017, equation 1.
    Differs from the paper: none. The attentional vector h̃ (equation 5) belongs to the decoder, not to this layer.

    Args:
        score: str ("dot", "scaled_dot", "general", "cosine", "mlp", "concat" or "additive", "location_aware") or
            `keras_attention.scores.Score`. With "location_aware", which sees the weights of the query before, queries
            are read one after the other.
        units: int > 0. Width of the hidden layer of "concat", "mlp" and "location_aware"; refused by the others.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the dropout.
        alignment: str ("softmax", "sparsemax", "entmax15" or "argmax") or function of score and mask → weights.

    Call arguments:
        inputs: `[query, value]` or `[query, value, key]`, float (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk); key defaults to
            value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all.
        attention_mask: bool (B, Tq, Tv), True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.

    Returns:
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout. Masked
        weights are exactly 0; a row with nothing to keep, or whose query is masked, is all 0.

    Raises:
        ValueError: an unknown score or alignment, `units` missing or not wanted, Dq ≠ Dk for a dot score, a score of
            several channels, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool, or a `score` that is neither a name nor a `Score`.

    Example:
    >>> layer = LuongAttention(score="general")
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(self, score="general", units=None, dropout=0.0, seed=None, alignment="softmax", **kwargs):
        super().__init__(alignment=alignment, dropout=dropout, seed=seed, **kwargs)
        self.set_score(score, units)

    def get_config(self):
        return {**super().get_config(), **self.score_config()}

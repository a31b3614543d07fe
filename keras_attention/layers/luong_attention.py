"""`LuongAttention`: multiplicative attention, or any other score."""

from __future__ import annotations

import keras

from keras_attention import scores
from keras_attention.layers.attention_layer import SoftAttention

__all__ = ["LuongAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class LuongAttention(SoftAttention):
    """Global attention with a score to choose: dot, general, concat, scaled dot, or a `Score` of your own.

    Luong et al., 2015 (arXiv 1508.04025), section 3.1, equations 7 and 8:
    `dot: q · k`, `general: q · W k`, `concat: v · tanh(W [q; k])`; and `scaled_dot: q · k / √D` of Vaswani et al.,
    2017, equation 1.
    Differs from the paper: none. The attentional vector h̃ (equation 5) belongs to the decoder, not to this layer.

    Args:
        score: str ("dot", "scaled_dot", "general", "concat" or "additive") or `keras_attention.scores.Score`.
        units: int > 0. Width of the hidden layer of "concat"; refused by the others.
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
        `context` (B, Tq, Dv); with `return_attention_scores`, also `weights` (B, Tq, Tv), before dropout. Masked
        weights are exactly 0; a row with nothing to keep, or whose query is masked, is all 0.

    Raises:
        ValueError: an unknown score, `units` missing or not wanted, Dq ≠ Dk for a dot score, a wrong rank, or lengths
            or batches that differ.
        TypeError: a mask that is not bool, or a `score` that is neither a name nor a `Score`.

    Example:
    >>> layer = LuongAttention(score="general")
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(self, score="general", units=None, dropout=0.0, seed=None, **kwargs):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        if isinstance(score, dict):
            score = keras.saving.deserialize_keras_object(score)
        self.score = scores.get(score, units=units, dtype=self.dtype_policy)
        self.score_name = score if isinstance(score, str) else None
        self.units = units

    def get_config(self):
        score = self.score_name
        if score is None:
            score = keras.saving.serialize_keras_object(self.score)
            score.pop("build_config", None)  # built again by this layer, so that its weights keep their paths
        return {**super().get_config(), "score": score, "units": self.units}

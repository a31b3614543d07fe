"""`BahdanauAttention`: additive attention."""

from __future__ import annotations

import keras

from keras_attention import scores
from keras_attention.layers.soft_attention import SoftAttention

__all__ = ["BahdanauAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class BahdanauAttention(SoftAttention):
    """Additive attention: scores each key against a query with a network of one hidden layer.

    Bahdanau et al., 2015 (arXiv 1409.0473), appendix A.1.2: `score(q, k) = v · tanh(W q + U k)`, without biases.
    Differs from the paper: none; `normalize` adds the weight normalisation of v that Raffel et al., 2017 use in their
    modified energy function.

    Args:
        units: int > 0. Width U of the hidden layer.
        normalize: bool. Uses `g · v / ‖v‖` for v.
        use_bias: bool. Adds a bias before the tanh.
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
        ValueError: `units` < 1, `dropout` outside [0, 1), a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = BahdanauAttention(units=16)
    >>> query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    >>> context, weights = layer([query, value], return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 3, 6]), TensorShape([2, 3, 5]))
    """

    def __init__(self, units, normalize=False, use_bias=False, dropout=0.0, seed=None, alignment="softmax", **kwargs):
        super().__init__(alignment=alignment, dropout=dropout, seed=seed, **kwargs)
        self.score = scores.AdditiveScore(
            units, use_bias=use_bias, normalize=normalize, dtype=self.dtype_policy, name="score"
        )

    def get_config(self):
        score = self.score
        return {
            **super().get_config(),
            "units": score.units,
            "normalize": score.normalize,
            "use_bias": score.use_bias,
        }

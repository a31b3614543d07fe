"""`MeanPooling`: the mean of a sequence over the places that are kept."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.sequence_pooling import SequencePooling

__all__ = ["MeanPooling"]


@keras.saving.register_keras_serializable("keras_attention")
class MeanPooling(SequencePooling):
    """Mean pooling: all kept places of a sequence count alike. The baseline of the attentive poolings.

    `z = Σ_t a_t h_t`, a_t = 1 / n on each of the n kept places (equation 7 of Ilse et al., 2018, arXiv 1802.04712,
    with equal weights).

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep; default is the mask that Keras passes on, or keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. Changes nothing here.

    Returns:
        `context` (B, D); with `return_attention_scores`, also `weights` (B, T): 1 / n on kept places, exactly 0 on
        masked ones; where nothing is kept all are 0, and the context too. The context has no mask.

    Raises:
        ValueError: a wrong rank.
        TypeError: a mask that is not bool.

    Example:
    >>> context, weights = MeanPooling()(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 6]), TensorShape([2, 5]))
    """

    def weigh(self, inputs, mask):
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        if mask is None:
            kept = ops.ones(ops.shape(inputs)[:2], dtype=wide)
        else:
            kept = ops.cast(mask, wide)
        return kept / ops.maximum(ops.sum(kept, axis=-1, keepdims=True), 1)

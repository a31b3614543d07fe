"""`MaxPooling`: the highest value of each channel of a sequence, and where it stood."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.sequence_pooling import SequencePooling
from keras_attention.precision import at_least_float32

__all__ = ["MaxPooling"]

_LOWEST = -3e38  # the lowest finite number of float32, nearly: an empty row must have a finite maximum


@keras.saving.register_keras_serializable("keras_attention")
class MaxPooling(SequencePooling):
    """Max pooling: of each channel the highest value over the kept places. A baseline of the attentive poolings.

    `z_d = max_t h_td`, the maximum operator of Ilse et al., 2018 (arXiv 1802.04712), section 2.3. Its weights are a
    saliency, the share of the channels whose maximum stands at each place; equal maxima share a channel equally. The
    context is not the weighted sum, as each channel looks elsewhere; there is no gradient through the weights.

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep; default is the mask that Keras passes on, or keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. Changes nothing here.

    Returns:
        `context` (B, D); with `return_attention_scores`, also `weights` (B, T): they sum to 1, and are exactly 0 on
        masked places; where nothing is kept all are 0, and the context too. The context has no mask.

    Raises:
        ValueError: a wrong rank.
        TypeError: a mask that is not bool.

    Example:
    >>> context, weights = MaxPooling()(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 6]), TensorShape([2, 5]))
    """

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        self.check_call(inputs, mask)
        kept = at_least_float32(inputs)
        if mask is not None:
            kept = ops.where(ops.expand_dims(mask, -1), kept, ops.full_like(kept, _LOWEST))
        context = ops.max(kept, axis=1)
        if mask is not None:
            context = ops.where(ops.any(mask, axis=1, keepdims=True), context, ops.zeros_like(context))
        context = ops.cast(context, inputs.dtype)
        return (context, self.weigh(kept, mask)) if return_attention_scores else context

    def weigh(self, inputs, mask):
        highest = ops.equal(inputs, ops.max(inputs, axis=1, keepdims=True))  # (B, T, D)
        if mask is not None:
            highest = ops.logical_and(highest, ops.expand_dims(mask, -1))
        highest = ops.cast(highest, inputs.dtype)
        return ops.mean(highest / ops.maximum(ops.sum(highest, axis=1, keepdims=True), 1), axis=-1)

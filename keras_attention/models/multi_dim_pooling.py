"""`MultiDimPooling`: a sequence read into one vector, each channel by weights of its own."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.precision import wide_range

__all__ = ["MultiDimPooling"]


class MultiDimPooling(keras.layers.Layer):
    """Multi-dimensional source2token self-attention: a score for each channel of each place.

    Shen et al., 2018 (arXiv 1709.04696), section 3.2: `Wᵀ σ(W₁ h_t + b₁)` has one number a channel, softmax runs over
    the places in each channel, and channel d of the context is `Σ_t a_td h_td`.
    Differs from the paper: no bias after W, which the softmax cancels; σ is the hyperbolic tangent.

    Args:
        units: int > 0. Width of the hidden layer.

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep; default keeps all.

    Returns:
        `context` (B, D) and `weights` (B, D, T). Masked weights are exactly 0; where nothing is kept all are 0.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernel = self.add_weight(name="kernel", shape=(width, self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.channel_kernel = self.add_weight(name="channel_kernel", shape=(self.units, width))
        self.built = True

    def call(self, inputs, mask=None):
        dtype = inputs.dtype
        hidden = ops.tanh(ops.matmul(inputs, ops.cast(self.kernel, dtype)) + ops.cast(self.bias, dtype))  # (B, T, U)
        hidden, channel_kernel = wide_range(hidden, ops.cast(self.channel_kernel, dtype))
        score = ops.transpose(ops.matmul(hidden, channel_kernel), (0, 2, 1))  # (B, D, T)
        weights = alignments.softmax(score, None if mask is None else ops.expand_dims(mask, 1))
        read = ops.transpose(ops.cast(weights, dtype), (0, 2, 1)) * inputs
        return ops.sum(read, axis=1), weights

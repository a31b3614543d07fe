"""`LayerMix`: one state of all layers of a network, by weights that are learnt."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.precision import at_least_float32

__all__ = ["LayerMix"]


class LayerMix(keras.layers.Layer):
    """The layers of a network as one: `γ Σ_j softmax(s)_j h_j`, s and γ learnt.

    ELMo (Peters et al., 2018, arXiv 1802.05365), section 3.2.
    Differs from the paper: no layer normalisation before the sum.

    Call arguments:
        inputs: list of L float (B, T, D), the states layer by layer.

    Returns:
        (B, T, D). At the start it is their mean.

    Raises:
        ValueError: there is no layer, or two differ in shape.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        if not input_shape or any(tuple(one) != tuple(input_shape[0]) for one in input_shape):
            raise ValueError(
                f"All layers must have the same shape (B, T, D). Received {[tuple(one) for one in input_shape]}. Leave "
                "out those that differ, or project them."
            )
        self.scores = self.add_weight(name="scores", shape=(len(input_shape),), initializer="zeros")
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones")
        self.built = True

    def call(self, inputs):
        shares = ops.softmax(at_least_float32(ops.convert_to_tensor(self.scores)))
        weights = ops.cast(shares * ops.cast(self.gamma, shares.dtype), inputs[0].dtype)
        return sum(weights[place] * layer for place, layer in enumerate(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def compute_mask(self, inputs, previous_mask):
        return previous_mask[0] if isinstance(previous_mask, (list, tuple)) else previous_mask

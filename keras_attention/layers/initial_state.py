"""`InitialState`: the states before the first step of a decoder cell, as a layer."""

from __future__ import annotations

import math

import keras
from keras import ops

from keras_attention.layers.cell_checks import revived
from keras_attention.layers.cell_state import flat

__all__ = ["InitialState"]


@keras.saving.register_keras_serializable("keras_attention")
class InitialState(keras.layers.Layer):
    """What `cell.initial_state` leaves in a functional model: the layer that makes the states.

    Args:
        cell: the `AttentionCell`.
    """

    def __init__(self, cell, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.cell = revived(cell)
        self.supports_masking = True  # and passes none on

    def build(self, value_shape, key_shape=None, states_shape=None):
        self.cell.build_memory(value_shape, key_shape)
        self.built = True

    def call(self, value, key=None, mask=None, states=None, training=None):
        cell = self.cell
        state = cell.start(cell.prepare(value, key, mask), states, training)
        output = state.output
        if cell.return_attention_scores:
            batch, length = ops.shape(value)[:2]
            weights = ops.zeros((batch, math.prod(cell.weights_shape(batch, length)[1:])), output.dtype)
            output = ops.concatenate([output, weights], axis=-1)
        return [[*cell.pack(state, output), *[cell.widened(flat(leaf)) for leaf in state.prepared]]]

    def compute_mask(self, inputs, mask=None):
        return None

    def get_config(self):
        cell = keras.saving.serialize_keras_object(self.cell)
        # The RNN holds the same cell. Keras marks the second of two alike, and copies the first too early to mark it.
        return {**super().get_config(), "cell": {**cell, "shared_object_id": id(self.cell)}}

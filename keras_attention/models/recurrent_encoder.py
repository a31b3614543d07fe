"""`RecurrentEncoder`: layers of GRU or LSTM over a padded batch."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.models.both_directions import both_directions

__all__ = ["RecurrentEncoder"]

_LAYERS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


class RecurrentEncoder(keras.layers.Layer):
    """Recurrent layers, one on top of the other, in one or both directions.

    They are Keras' own layers, so that on a GPU they meet cuDNN's conditions (padding on the right, no empty row).

    Args:
        cell: "gru" or "lstm".
        units: int. Width of the states that come out: of both directions together.
        num_layers: int > 0.
        bidirectional: bool.
        layer_normalization: bool. Normalises the states that each layer gives to the next and to the decoder.
        dropout: float in [0, 1). Between the layers.

    Call arguments:
        inputs: float (B, Tv, E).
        mask: bool (B, Tv), True = keep.

    Returns:
        `values` (B, Tv, units), and `states`: for each layer a list of its last states (B, units), the directions side
        by side.
    """

    def __init__(self, cell, units, num_layers=1, bidirectional=True, layer_normalization=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units, self.bidirectional = units, bidirectional
        width = units // 2 if bidirectional else units
        self.layers = []
        for number in range(num_layers):
            layer = _LAYERS[cell](
                width, return_sequences=True, return_state=True, dtype=self.dtype_policy, name=f"{cell}_{number}"
            )
            if bidirectional:
                layer = both_directions(layer, dtype=self.dtype_policy, name=f"layer_{number}")
            self.layers.append(layer)
        self.norms = []
        if layer_normalization:
            self.norms = [
                keras.layers.LayerNormalization(dtype=self.dtype_policy, name=f"norm_{number}")
                for number in range(num_layers)
            ]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = (*input_shape[:-1], self.units)
        for norm in self.norms:
            norm.build(input_shape)
        self.built = True

    def call(self, inputs, mask=None, training=None):
        values, states = inputs, []
        for number, layer in enumerate(self.layers):
            if number:
                values = self.dropout(values, training=training)
            values, *last = layer(values, mask=mask, training=training)
            if self.norms:
                values = self.norms[number](values)
            states.append(self._side_by_side(last))
        return values, states

    def _side_by_side(self, last):
        if not self.bidirectional:
            return list(last)
        half = len(last) // 2
        return [ops.concatenate(pair, axis=-1) for pair in zip(last[:half], last[half:], strict=True)]

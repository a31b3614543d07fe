"""`KerasEncoder`: any Keras model that gives states, as the encoder of a recurrent decoder."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.models.layer_mix import LayerMix
from keras_attention.models.sequences import masked_mean

__all__ = ["KerasEncoder"]


class KerasEncoder(keras.layers.Layer):
    """A network of the user's own in the place of `RecurrentEncoder`.

    Of several layers it reads a learnt mix (see `LayerMix`). The decoder's first states are `tanh(W h̄)` of the mean h̄
    of the states that are read, with a W for each of them.

    Args:
        network: `keras.Model`, ids int32 (B, Tv) → states (B, Tv, D), or a list of such, layer by layer. The id 0 is
            padding, which the network must not look at.
        cell, units, num_layers: of the decoder that reads from it.

    Call arguments:
        inputs: int32 (B, Tv).
        mask: bool (B, Tv), True = keep.

    Returns:
        as `RecurrentEncoder`: `values` (B, Tv, D), and for each layer of the decoder a list of its first states
        (B, units).

    Raises:
        TypeError: `network` is no Keras model.
        ValueError: it gives no states of that shape.
    """

    def __init__(self, network, cell, units, num_layers=1, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(network, keras.Model):
            raise TypeError(
                f"`encoder` must be a keras.Model from ids (B, Tv) to states (B, Tv, D). Received "
                f"{type(network).__name__}; wrap it in one."
            )
        self.supports_masking = True
        self.network = network
        self.mix = None
        per_layer = 2 if cell == "lstm" else 1
        self.bridges = [
            [
                keras.layers.Dense(units, "tanh", dtype=self.dtype_policy, name=f"state_{layer}_{number}")
                for number in range(per_layer)
            ]
            for layer in range(num_layers)
        ]

    def build(self, input_shape=None):
        found = self._states(tf.ones([1, 3], tf.int32))  # makes the weights of a network that has none yet
        shapes = [tuple(one.shape) for one in found]
        widths = {shape[-1] for shape in shapes}
        if any(len(shape) != 3 or shape[:2] != (1, 3) for shape in shapes) or len(widths) != 1:
            raise ValueError(
                f"`encoder` must give states (B, Tv, D), or a list of such of one width D. It gave {shapes} for ids "
                "(1, 3). Choose its outputs with keras.Model(inputs, outputs)."
            )
        (self.output_dim,) = widths
        if len(found) > 1:
            self.mix = LayerMix(dtype=self.dtype_policy, name="mix")
            self.mix.build(shapes)
        for layer in self.bridges:
            for bridge in layer:
                bridge.build((None, self.output_dim))
        self.built = True

    def _states(self, ids, training=None):
        found = self.network(ids, training=training)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        if not found or not all(hasattr(one, "shape") for one in found):
            raise ValueError(
                f"`encoder` must give states (B, Tv, D), or a list of such. It gave {type(found[0]).__name__}. Choose "
                "its outputs with keras.Model(inputs, outputs)."
            )
        return found

    def call(self, inputs, mask=None, training=None):
        states = [ops.cast(one, self.compute_dtype) for one in self._states(inputs, training)]
        values = states[0] if self.mix is None else self.mix(states)
        mean = masked_mean(values, mask)
        return values, [[bridge(mean) for bridge in layer] for layer in self.bridges]

    def compute_mask(self, inputs, previous_mask):
        return None  # the mask of the states is the one that was given

"""Recurrent cells whose input projection is apart from the step, so that it leaves the loop.

`project(inputs)` does, for all steps in one product, what depends on the inputs alone; `stepper(dtype)` returns a
plain function for the rest, with the weights cast once, outside the loop that calls it. `feed_units` adds a second
input that is only known step by step: what a decoder feeds back.
"""

from __future__ import annotations

import keras
from keras import ops

__all__ = ["CELLS", "GRUCell", "LSTMCell", "RecurrentCell"]


class RecurrentCell(keras.layers.Layer):
    """What the two cells share: kernels for the input, for what is fed back and for the state.

    Args:
        units: int > 0. Width of the state.
        feed_units: int >= 0. Width of the input that is fed back; 0 for none.
    """

    gates: int  # blocks of `units` columns in every kernel
    num_states: int

    def __init__(self, units, feed_units=0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.feed_units = feed_units

    @property
    def state_size(self):
        return [self.units] * self.num_states

    @property
    def output_size(self):
        return self.units

    def build(self, input_shape):
        columns = self.gates * self.units
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], columns), initializer="glorot_uniform")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, columns), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(columns,), initializer=self.bias_start)
        if self.feed_units:
            self.feed_kernel = self.add_weight(
                name="feed_kernel", shape=(self.feed_units, columns), initializer="glorot_uniform"
            )
        self.built = True

    def bias_start(self, shape, dtype=None):
        return ops.zeros(shape, dtype)

    def project(self, inputs):
        """inputs (…, D) → their share of all gates (…, gates · units)."""
        return self.projector(inputs.dtype)(inputs)

    def projector(self, dtype):
        """`project` as a plain function, with the weights cast here."""
        kernel, bias = ops.cast(self.kernel, dtype), ops.cast(self.bias, dtype)

        def project(inputs):
            return ops.matmul(inputs, kernel) + bias

        return project

    def call(self, inputs, states, feed=None):
        """One step, for `keras.layers.RNN`: inputs (B, D), states list of (B, units) → output (B, units), states."""
        states = self.stepper(inputs.dtype)(self.project(inputs), states, feed)
        return states[0], states

    def get_config(self):
        return {**super().get_config(), "units": self.units, "feed_units": self.feed_units}


@keras.saving.register_keras_serializable("keras_attention")
class GRUCell(RecurrentCell):
    """Gated recurrent unit (Cho et al., 2014), in the form in which the reset gate acts after the product, as in
    cuDNN.
    """

    gates, num_states = 3, 1

    def build(self, input_shape):
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(name="recurrent_bias", shape=(self.units,), initializer="zeros")

    def stepper(self, dtype):
        """A function (projected (B, 3U), [h], feed) → [h]."""
        recurrent_kernel, recurrent_bias = ops.cast(self.recurrent_kernel, dtype), ops.cast(self.recurrent_bias, dtype)
        feed_kernel = ops.cast(self.feed_kernel, dtype) if self.feed_units else None
        units = self.units

        def step(projected, states, feed=None):
            (h,) = states
            if feed_kernel is not None:
                projected = projected + ops.matmul(feed, feed_kernel)
            inner = ops.matmul(h, recurrent_kernel)
            gates = ops.sigmoid(projected[:, : 2 * units] + inner[:, : 2 * units])
            update, reset = gates[:, :units], gates[:, units:]
            candidate = ops.tanh(projected[:, 2 * units :] + reset * (inner[:, 2 * units :] + recurrent_bias))
            return [update * h + (1 - update) * candidate]

        return step


@keras.saving.register_keras_serializable("keras_attention")
class LSTMCell(RecurrentCell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997, with forget gates), the forget gate's bias starting at
    1.
    """

    gates, num_states = 4, 2

    def bias_start(self, shape, dtype=None):
        units = self.units
        return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])

    def stepper(self, dtype):
        """A function (projected (B, 4U), [h, c], feed) → [h, c]."""
        recurrent_kernel = ops.cast(self.recurrent_kernel, dtype)
        feed_kernel = ops.cast(self.feed_kernel, dtype) if self.feed_units else None
        units = self.units

        def step(projected, states, feed=None):
            h, c = states
            gates = projected + ops.matmul(h, recurrent_kernel)
            if feed_kernel is not None:
                gates = gates + ops.matmul(feed, feed_kernel)
            keep = ops.sigmoid(gates[:, : 2 * units])
            write, forget = keep[:, :units], keep[:, units:]
            c = forget * c + write * ops.tanh(gates[:, 2 * units : 3 * units])
            return [ops.sigmoid(gates[:, 3 * units :]) * ops.tanh(c), c]

        return step


CELLS = {"gru": GRUCell, "lstm": LSTMCell}

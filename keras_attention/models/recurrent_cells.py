"""Recurrent cells whose input projection is apart from the step, so that it leaves the loop.

`project(inputs)` does, for all steps in one product, what depends on the inputs alone; `stepper(dtype)` returns a
plain function for the rest, with the weights cast once, outside the loop that calls it. `feed_units` adds a second
input that is only known step by step: what a decoder feeds back.
"""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.precision import at_least_float32

__all__ = ["CELLS", "GRUCell", "LSTMCell", "RecurrentCell", "normalized"]


def normalized(inputs, gain, blocks=1):
    """Layer normalisation without a shift (Ba et al., 2016, arXiv 1607.06450, section 3): each of `blocks` equal parts
    of the last axis to mean 0 and variance 1, in at least float32, times `gain`.
    """
    wide = at_least_float32(inputs)
    parts = ops.reshape(wide, (*ops.shape(wide)[:-1], blocks, inputs.shape[-1] // blocks))
    mean = ops.mean(parts, axis=-1, keepdims=True)
    centred = parts - mean
    parts = centred * ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + 1e-5)
    return ops.cast(ops.reshape(parts, ops.shape(wide)), inputs.dtype) * gain


class RecurrentCell(keras.layers.Layer):
    """What the two cells share: kernels for the input, for what is fed back and for the state.

    Args:
        units: int > 0. Width of the state.
        feed_units: int >= 0. Width of the input that is fed back; 0 for none.
        layer_normalization: bool. Normalises, gate by gate, what comes from the input, from what is fed back and from
            the state, each for itself.
    """

    gates: int  # blocks of `units` columns in every kernel
    num_states: int

    def __init__(self, units, feed_units=0, layer_normalization=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.feed_units = feed_units
        self.layer_normalization = layer_normalization

    @property
    def state_size(self):
        return [self.units] * self.num_states

    @property
    def output_size(self):
        return self.units

    def build(self, input_shape):
        """Makes the weights for inputs (…, D); with D = 0 there is no input."""
        columns = self.gates * self.units
        self.input_units = input_shape[-1]
        if self.input_units:
            self.kernel = self._kernel("kernel", self.input_units, "glorot_uniform")
        self.recurrent_kernel = self._kernel("recurrent_kernel", self.units, "orthogonal")
        self.bias = self.add_weight(name="bias", shape=(columns,), initializer=self.bias_start)
        if self.feed_units:
            self.feed_kernel = self._kernel("feed_kernel", self.feed_units, "glorot_uniform")
        self.built = True

    def _kernel(self, name, rows, initializer):
        """A kernel, and beside it the gain of the normalisation of what it gives."""
        columns = self.gates * self.units
        if self.layer_normalization:
            gain = self.add_weight(name=name.replace("kernel", "gain"), shape=(columns,), initializer="ones")
            setattr(self, name.replace("kernel", "gain"), gain)
        return self.add_weight(name=name, shape=(rows, columns), initializer=initializer)

    def bias_start(self, shape, dtype=None):
        return ops.zeros(shape, dtype)

    def product(self, name, dtype):
        """A function x → x · kernel, normalised where the cell is, with the weights cast here."""
        kernel = ops.cast(getattr(self, name), dtype)
        if not self.layer_normalization:
            return lambda inputs: ops.matmul(inputs, kernel)
        gain = ops.cast(getattr(self, name.replace("kernel", "gain")), dtype)
        return lambda inputs: normalized(ops.matmul(inputs, kernel), gain, self.gates)

    def project(self, inputs):
        """inputs (…, D) → their share of all gates (…, gates · units)."""
        return self.projector(inputs.dtype)(inputs)

    def projector(self, dtype):
        """`project` as a plain function, with the weights cast here."""
        bias = ops.cast(self.bias, dtype)
        if not self.input_units:
            return lambda inputs: ops.zeros((*ops.shape(inputs)[:-1], self.gates * self.units), dtype) + bias
        multiply = self.product("kernel", dtype)
        return lambda inputs: multiply(inputs) + bias

    def feeder(self, dtype):
        """A function feed (B, feed_units) → its share of all gates."""
        return self.product("feed_kernel", dtype)

    def call(self, inputs, states, feed=None):
        """One step, for `keras.layers.RNN`: inputs (B, D), states list of (B, units) → output (B, units), states."""
        states = self.stepper(inputs.dtype)(self.project(inputs), states, feed)
        return states[0], states

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "feed_units": self.feed_units,
            "layer_normalization": self.layer_normalization,
        }


@keras.saving.register_keras_serializable("keras_attention")
class GRUCell(RecurrentCell):
    """Gated recurrent unit (Cho et al., 2014), in the form in which the reset gate acts after the product, as in
    cuDNN.
    """

    gates, num_states = 3, 1

    def build(self, input_shape):
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(name="recurrent_bias", shape=(self.units,), initializer="zeros")

    def stepper(self, dtype, fed=True):
        """A function (projected (B, 3U), [h], feed) → [h]."""
        recur, recurrent_bias = self.product("recurrent_kernel", dtype), ops.cast(self.recurrent_bias, dtype)
        feed_in = self.feeder(dtype) if fed and self.feed_units else None

        def step(projected, states, feed=None):
            (h,) = states
            if feed_in is not None:
                projected = projected + feed_in(feed)
            # Split rather than sliced: the gradient of a slice is as large as the whole, and mostly zeros.
            inner = ops.split(recur(h), 3, axis=-1)
            outer = ops.split(projected, 3, axis=-1)
            update, reset = ops.sigmoid(outer[0] + inner[0]), ops.sigmoid(outer[1] + inner[1])
            candidate = ops.tanh(outer[2] + reset * (inner[2] + recurrent_bias))
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

    def stepper(self, dtype, fed=True):
        """A function (projected (B, 4U), [h, c], feed) → [h, c]."""
        recur = self.product("recurrent_kernel", dtype)
        feed_in = self.feeder(dtype) if fed and self.feed_units else None

        def step(projected, states, feed=None):
            h, c = states
            gates = projected + recur(h)
            if feed_in is not None:
                gates = gates + feed_in(feed)
            write, forget, candidate, output = ops.split(gates, 4, axis=-1)
            c = ops.sigmoid(forget) * c + ops.sigmoid(write) * ops.tanh(candidate)
            return [ops.sigmoid(output) * ops.tanh(c), c]

        return step


CELLS = {"gru": GRUCell, "lstm": LSTMCell}

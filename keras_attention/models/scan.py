"""`scan`: a loop over time in the graph."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["scan"]


def scan(step, inputs, state):
    """Calls `step(inputs[:, t], state) → output, state` for every t.

    Args:
        step: function of a (B, …) slice and the state.
        inputs: (B, T, …).
        state: nested tensors; the structure and the shapes stay.

    Returns:
        the outputs, (B, T, …), in the dtype of the inputs.
    """
    by_time = tf.transpose(inputs, [1, 0, *range(2, inputs.shape.rank)])
    length = tf.shape(by_time)[0]
    slices = tf.TensorArray(inputs.dtype, length, element_shape=by_time.shape[1:]).unstack(by_time)
    flat_state = tf.nest.flatten(state)
    outputs = tf.TensorArray(inputs.dtype, length)

    def body(t, outputs, flat):
        output, new_state = step(slices.read(t), tf.nest.pack_sequence_as(state, flat))
        new_flat = [tf.ensure_shape(new, old.shape) for new, old in zip(tf.nest.flatten(new_state), flat, strict=True)]
        return t + 1, outputs.write(t, output), new_flat

    _, outputs, _ = tf.while_loop(lambda t, *_: t < length, body, (0, outputs, flat_state), maximum_iterations=length)
    stacked = outputs.stack()
    return tf.transpose(stacked, [1, 0, *range(2, stacked.shape.rank)])

"""What the tests need of a backend and `keras.ops` does not give: gradients, and which tests need TensorFlow.

The layers are tested on each backend, one run for each:

    pytest tests
    KERAS_BACKEND=jax pytest tests/layers tests/test_scores.py tests/test_alignments.py

A further backend is one more entry in `_GRADIENTS`.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

BACKEND = keras.backend.backend()

tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="needs TensorFlow: tf.function and its XLA")
float64_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras does not keep float64 on this backend")


def gradients(function, arrays, variables=()):
    """The gradients of a scalar.

    Args:
        function: takes one tensor for each array, returns a scalar tensor.
        arrays: list of NumPy arrays, in the dtype to compute in.
        variables: Keras variables that `function` reads.

    Returns:
        two lists of float64 arrays: one for each array, one for each variable; 0 where nothing flows.
    """
    for_arrays, for_variables = _GRADIENTS[BACKEND](
        function, [ops.convert_to_tensor(a) for a in arrays], list(variables)
    )
    return [to_float64(g) for g in for_arrays], [to_float64(g) for g in for_variables]


def to_float64(tensor) -> np.ndarray:
    """A tensor of any float or bool dtype (bfloat16 too) as a float64 array."""
    return np.asarray(ops.convert_to_numpy(tensor)).astype("float64")


def _tensorflow_gradients(function, tensors, variables):
    import tensorflow as tf

    sources = [*tensors, *(v.value for v in variables)]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(sources)
        result = function(*tensors)
    found = tape.gradient(result, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return found[: len(tensors)], found[len(tensors) :]


def _jax_gradients(function, tensors, variables):
    import jax

    def pure(tensors, values):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*tensors)

    return jax.grad(pure, argnums=(0, 1))(tensors, [v.value for v in variables])


_GRADIENTS = {"tensorflow": _tensorflow_gradients, "jax": _jax_gradients}

"""What the tests need of a backend and `keras.ops` does not give: gradients, and which tests need TensorFlow.

The layers are tested on each backend, one run for each:

    pytest tests
    KERAS_BACKEND=torch pytest tests/layers tests/test_scores.py tests/test_alignments.py
    KERAS_BACKEND=jax pytest tests/layers tests/test_scores.py tests/test_alignments.py -m "not one_backend"

A further backend is one more entry in `_GRADIENTS`.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

BACKEND = keras.backend.backend()

tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="needs TensorFlow: tf.function and its XLA")
# JAX computes in 32 bits unless told otherwise, and Keras' type promotion follows it on PyTorch: `matmul` of float64
# gives float32 there.
float64_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras does not keep float64 on this backend")

# What it shows does not depend on the backend, or is shown on each by another test: CI runs it on TensorFlow alone.
one_backend = pytest.mark.one_backend


def gradients(function, arrays, variables=()):
    """The gradients of a scalar.

    Args:
        function: takes one tensor for each array, returns a scalar tensor.
        arrays: list of NumPy arrays, in the dtype to compute in.
        variables: Keras variables that `function` reads.

    Returns:
        two lists of float64 arrays: one for each array, one for each variable; 0 where nothing flows.
    """
    _, for_arrays, for_variables = results_and_gradients(lambda *tensors: (function(*tensors), ()), arrays, variables)
    return for_arrays, for_variables


def results_and_gradients(function, arrays, variables=(), *, compiled=False):
    """As `gradients`, of a function that returns a scalar and further results, nested tensors.

    Args:
        compiled: bool. On JAX, by `jax.jit`: for many functions of one call each that is several times faster.

    Returns:
        the results as float64 arrays, and the two lists of `gradients`.
    """
    tensors = [ops.convert_to_tensor(a) for a in arrays]
    found = _GRADIENTS[BACKEND](function, tensors, list(variables), compiled)
    results, for_arrays, for_variables = (keras.tree.map_structure(to_float64, one) for one in found)
    return results, list(for_arrays), list(for_variables)


def to_float64(tensor) -> np.ndarray:
    """A tensor of any float or bool dtype (bfloat16 too) as a float64 array."""
    return np.asarray(ops.convert_to_numpy(tensor)).astype("float64")


def _tensorflow_gradients(function, tensors, variables, compiled):
    import tensorflow as tf

    sources = [*tensors, *(v.value for v in variables)]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(sources)
        scalar, results = function(*tensors)
    found = tape.gradient(scalar, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return results, found[: len(tensors)], found[len(tensors) :]


def _jax_gradients(function, tensors, variables, compiled):
    import jax

    def pure(tensors, values):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*tensors)

    of_both = jax.grad(pure, argnums=(0, 1), has_aux=True)
    if compiled:
        of_both = jax.jit(of_both)
    (for_tensors, for_variables), results = of_both(tensors, [v.value for v in variables])
    return results, for_tensors, for_variables


def _torch_gradients(function, tensors, variables, compiled):
    import torch

    tensors = [tensor.detach().clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    sources = [*tensors, *(v.value for v in variables)]
    scalar, results = function(*tensors)
    found = [None] * len(sources)
    if scalar.requires_grad:
        found = torch.autograd.grad(scalar, sources, allow_unused=True)
    found = [torch.zeros_like(s) if g is None else g for s, g in zip(sources, found, strict=True)]
    return results, found[: len(tensors)], found[len(tensors) :]


_GRADIENTS = {"tensorflow": _tensorflow_gradients, "jax": _jax_gradients, "torch": _torch_gradients}

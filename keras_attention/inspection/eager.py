"""What each backend needs so that every tensor of a call has a value, and how one without is recognised."""

from __future__ import annotations

import contextlib

__all__ = ["is_symbolic", "run_eagerly"]


def run_eagerly():
    """A context in which compiled functions and loops run in Python; afterwards all is as before."""
    import keras

    return {"tensorflow": _tensorflow_eagerly, "jax": _jax_eagerly}.get(
        keras.backend.backend(), contextlib.nullcontext
    )()


def is_symbolic(tensor) -> bool:
    """Whether a tensor stands in a graph or a trace and has no value."""
    import keras

    if isinstance(tensor, keras.KerasTensor):
        return True
    check = {"tensorflow": _is_symbolic_in_tensorflow, "jax": _is_traced_by_jax, "torch": _has_no_value_in_torch}
    return check.get(keras.backend.backend(), lambda _: False)(tensor)


@contextlib.contextmanager
def _tensorflow_eagerly():
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _jax_eagerly():
    import jax

    return jax.disable_jit()


def _is_symbolic_in_tensorflow(tensor):
    import tensorflow as tf

    return tf.is_symbolic_tensor(tensor)


def _is_traced_by_jax(tensor):
    import jax

    return isinstance(tensor, jax.core.Tracer)


def _has_no_value_in_torch(tensor):
    """On the device of shapes, or inside of `torch.vmap` and its like."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return False
    return tensor.device.type == "meta" or torch._C._functorch.is_functorch_wrapped_tensor(tensor)

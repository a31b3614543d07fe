"""Precisions: which numbers a sum or a product needs, whatever the layers compute in."""

from __future__ import annotations

from keras import backend, ops


def at_least_float32(tensor):
    """`tensor` in float32, or as it is where it is wider; an array of NumPy becomes a tensor."""
    tensor = ops.convert_to_tensor(tensor)  # PyTorch's tensors do not take one to add or multiply
    dtype = backend.standardize_dtype(tensor.dtype)
    return ops.cast(tensor, "float32") if dtype in ("float16", "bfloat16") else tensor


def wide_range(*tensors):
    """Tensors to multiply and add: those of float16 in float32, others as they are.

    float16 ends at 65504, and one product past it would be a row of NaN.
    """
    if backend.standardize_dtype(tensors[0].dtype) != "float16":
        return tensors
    return tuple(ops.cast(tensor, "float32") for tensor in tensors)

"""`query_by_query`: a loop over the queries, for layers whose weights depend on the weights before them."""

from __future__ import annotations

import keras
from keras import ops

__all__ = ["check_state", "query_by_query"]


def query_by_query(step, memory, queries, mask, value_length):
    """Aligns the queries one after the other, in order.

    A plain loop that writes each row into its place: the lists that a scan gathers its rows in hold none of unknown
    length on TFLite, and ONNX has no such thing.

    Args:
        step: function of one query (B, …), which places it may see, bool (B, Tv), and the memory → weights (B, Tv),
            memory.
        memory: nested tensors, each with B first. A query that may see nothing leaves it as it was.
        queries: float (B, Tq, …).
        mask: bool, broadcastable to (B, Tq, Tv), True = keep; None keeps all.
        value_length: int. Tv.

    Returns:
        weights (B, Tq, Tv), in at least float32.
    """
    batch, query_length = ops.shape(queries)[:2]
    dtype = keras.backend.result_type(keras.backend.standardize_dtype(queries.dtype), "float32")
    rows = ops.zeros((query_length, batch, value_length), dtype)
    if queries.shape[1] == 0:  # JAX looks at the loop even if it never runs
        return _by_time(rows)
    mask = ops.ones((1, 1, 1), dtype="bool") if mask is None else mask
    mask = _by_time(ops.broadcast_to(mask, (batch, query_length, value_length)))
    queries = _by_time(queries)

    def body(t, carry):
        rows, memory = carry
        keep = ops.take(mask, t, axis=0)
        weights, new = step(ops.take(queries, t, axis=0), keep, memory)
        rows = ops.scatter_update(rows, ops.reshape(t, (1, 1)), ops.expand_dims(ops.cast(weights, dtype), 0))
        seeing = ops.any(keep, axis=-1)
        return rows, keras.tree.map_structure(lambda new, old: _where_seeing(seeing, new, old), new, memory)

    rows, _ = ops.fori_loop(0, query_length, body, (rows, memory))
    return _by_time(rows)


def check_state(layer, state):
    """A layer whose weights depend on those before them needs its state."""
    if isinstance(state, tuple) and not state:
        raise ValueError(
            f"{type(layer).__name__} looks back at the weights before, which `attend` carries in its state. "
            f"Received none. Pass `layer.initial_state(prepared)` first, then what the previous `attend` returned."
        )


def _by_time(tensor):
    """(B, T, …) → (T, B, …), and back."""
    return ops.transpose(tensor, (1, 0, *range(2, len(tensor.shape))))


def _where_seeing(seeing, new, old):
    """`new` (B, …) in the rows that see something, `old` elsewhere, in the shape of `old`: a loop keeps its shapes."""
    seeing = ops.reshape(seeing, (-1, *([1] * (len(old.shape) - 1))))
    return ops.reshape(ops.where(seeing, new, old), ops.shape(old))

"""`KeyValueCache`: the keys and values of the positions so far, for decoders that attend to their own past."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from keras_attention.scores.base import positive_int

__all__ = ["KeyValueCache", "empty_cache", "write"]


class KeyValueCache(NamedTuple):
    """Prepared keys with room for more: `attend` takes it as it takes `PreparedKeys`.

    Its shapes stay the same from step to step, as loops in a graph want them. Every leaf has the batch as its first
    axis, so that a beam search can gather them.

    Attributes:
        key: the keys of each head as its score wants them, float (B, H, max_length, …); 0 where nothing was written.
        value: float (B, H, max_length, Dv).
        mask: bool (B, max_length), True = keep: written, and not masked when it was.
        length: int32 (B,). How many positions were written.
    """

    key: Any
    value: Any
    mask: Any
    length: Any


def empty_cache(batch_size, max_length, key_shape, value_shape, dtype) -> KeyValueCache:
    """A cache with nothing in it.

    Args:
        batch_size: int or scalar tensor.
        max_length: int > 0. Positions there is room for.
        key_shape, value_shape: tuples of ints. Of one position: (H, …) and (H, Dv).
        dtype: of keys and values.
    """
    max_length = positive_int("max_length", max_length)
    _check_batch_size(batch_size)

    def room(shape):
        return ops.zeros((batch_size, shape[0], max_length, *shape[1:]), dtype=dtype)

    mask = ops.zeros((batch_size, max_length), dtype="bool")
    return KeyValueCache(room(key_shape), room(value_shape), mask, ops.zeros((batch_size,), dtype="int32"))


def write(cache: KeyValueCache, key, value, mask=None) -> KeyValueCache:
    """The cache with one position more.

    A graph cannot raise: there, a position past `max_length` makes its row NaN, so that it is not lost unseen.

    Args:
        cache: a `KeyValueCache`.
        key: float (B, H, 1, …), and value: float (B, H, 1, Dv), of that position.
        mask: bool (B,), True = keep; default keeps all. A masked position takes its place, and is never looked at.

    Raises:
        ValueError: the cache is full, where that is known: outside graphs.
    """
    max_length = cache.mask.shape[1]
    length = _known(cache.length)
    if length is not None and length.size and length.max() >= max_length:
        raise ValueError(
            f"The cache is full: it has room for max_length={max_length} positions. "
            f"Received position {int(length.max()) + 1}. Make it longer, or stop there."
        )
    last = ops.minimum(cache.length, max_length - 1)
    here = ops.expand_dims(ops.arange(max_length, dtype="int32"), 0) == ops.expand_dims(last, 1)  # (B, max_length)
    seen = here if mask is None else ops.logical_and(here, ops.expand_dims(mask, 1))
    fits = cache.length < max_length

    def put(held, new):
        new = ops.cast(new, held.dtype)
        new = ops.where(_with_rank(ops.expand_dims(fits, 1), held), new, float("nan"))
        return ops.where(_with_rank(here, held), new, held)

    return KeyValueCache(
        put(cache.key, key), put(cache.value, value), ops.logical_or(cache.mask, seen), cache.length + 1
    )


def _with_rank(places, held):
    """Places (B, L) as (B, 1, L, 1, …), of the rank of `held` (B, H, L, …)."""
    places = ops.expand_dims(places, 1)
    while len(places.shape) < len(held.shape):
        places = ops.expand_dims(places, -1)
    return places


def _known(tensor):
    """The numbers of a tensor, or None while a graph is built, where it has none yet."""
    try:
        return ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError, ValueError):  # what TensorFlow, JAX, and symbols of Keras say of it
        return None


def _check_batch_size(batch_size):
    if isinstance(batch_size, bool) or (isinstance(batch_size, int) and batch_size < 1):
        raise ValueError(f"`batch_size` must be an int > 0 or a scalar tensor. Received {batch_size!r}.")

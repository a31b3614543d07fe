"""`v · tanh(q' + k')` whose hidden layer is never whole in memory, and is made again for the gradient."""

from __future__ import annotations

import math

import keras
from keras import ops

from keras_attention.precision import at_least_float32

__all__ = ["weighted_tanh"]

# In numbers of the hidden layer. They decide speed and memory, never a result.
LARGEST_WHOLE = 2**22  # up to here it is made at once and kept for the gradient: 16 MB of float32
LARGEST_STEP = 2**19  # of one step of the loop: enough to pay for its dispatch, little enough to stay in a cache


def weighted_tanh(query, key, scale):
    """`Σ_u v_u tanh(q'_u + k'_u)` of each query with each key.

    Above a size, where there is more than one query and one key, nothing of shape (B, Tq, Tv, U) is ever in memory: a
    loop makes the hidden layer of one query of a few examples at a time, and the backward pass makes it again.

    Args:
        query: float (B, Tq, U), q'.
        key: float (B, Tv, U), k'.
        scale: float (U,), v.

    Returns:
        float (B, Tq, Tv), in the precision of `query`.
    """
    fits = _fits(query, key)
    return _scores_at_once(query, key, scale) if fits is True else _recomputed(query, key, scale, fits)


def _fits(query, key):
    """Whether the hidden layer is made at once: a bool, or a scalar tensor where only the running graph can say."""
    sizes = (*ops.shape(query), ops.shape(key)[1])
    if _is(sizes[1], 1) or _is(sizes[3], 1) or isinstance(query, keras.KerasTensor):
        return True
    known = math.prod(size for size in sizes if isinstance(size, int))
    unknown = [size for size in sizes if not isinstance(size, int)]
    if unknown and keras.backend.backend() != "tensorflow":
        return True  # symbols of an exporter, which no loop can count to
    if known > LARGEST_WHOLE or not unknown:
        return known <= LARGEST_WHOLE
    return math.prod([ops.cast(size, "float32") for size in unknown], start=float(known)) <= LARGEST_WHOLE


def _is(size, number):
    return isinstance(size, int) and size == number


def _recomputed(query, key, scale, fits):
    @ops.custom_gradient
    def scores(query, key, scale):
        wide = [at_least_float32(one) for one in (query, key, scale)]

        def gradients(*arguments, upstream=None):
            upstream = arguments[0] if upstream is None else upstream  # PyTorch passes the inputs first
            found = _gradients(*wide, at_least_float32(upstream), fits)
            return tuple(ops.cast(one, of.dtype) for one, of in zip(found, (query, key, scale), strict=True))

        found = _either(fits, _scores_at_once, _scores_in_steps, wide)
        return ops.cast(found, query.dtype), gradients

    found = scores(*(ops.convert_to_tensor(one) for one in (query, key, scale)))
    return ops.reshape(found, (*ops.shape(query)[:2], ops.shape(key)[1]))  # a converter loses the rank in the branches


def _either(fits, at_once, in_steps, tensors):
    if fits is False:
        return in_steps(*tensors)
    return ops.cond(fits, lambda: at_once(*tensors), lambda: in_steps(*tensors))


def _gradients(query, key, scale, upstream, fits):
    """Of query, key and scale; with h the hidden layer and g the upstream, `∂/∂q' = v Σ_v g (1 − h²)`."""
    of_query, of_key, of_scale = _either(fits, _sums_at_once, _sums_in_steps, (query, key, upstream))
    of_query = scale * (ops.expand_dims(ops.sum(upstream, axis=2), -1) - of_query)
    of_key = scale * (ops.expand_dims(ops.sum(upstream, axis=1), -1) - of_key)
    return of_query, of_key, of_scale


def _hidden(query, key):
    return ops.tanh(ops.expand_dims(query, 2) + ops.expand_dims(key, 1))  # (B, Tq, Tv, U)


def _scores_at_once(query, key, scale):
    return ops.einsum("bqvu,u->bqv", _hidden(query, key), scale)


def _sums_at_once(query, key, upstream):
    """`Σ_v g h²`, `Σ_q g h²` and `Σ g h`: (B, Tq, U), (B, Tv, U), (U,)."""
    hidden = _hidden(query, key)
    weighted = ops.expand_dims(upstream, -1) * hidden
    squares = weighted * hidden
    return ops.sum(squares, axis=2), ops.sum(squares, axis=1), ops.sum(weighted, axis=(0, 1, 2))


def _scores_in_steps(query, key, scale):
    batch, query_length, units = ops.shape(query)
    value_length = ops.shape(key)[1]
    count, group = _groups(batch, value_length * units)
    column = ops.expand_dims(scale, 1)

    def of_group(_, queries, keys):
        def of_query(_, one):
            hidden = ops.tanh(ops.expand_dims(one, 1) + keys)  # (group, Tv, U)
            row = ops.matmul(ops.reshape(hidden, (-1, units)), column)
            return (), [ops.reshape(row, (group, value_length))]

        return _loop(of_query, (), [queries], [(group, value_length)])

    sequences = [_by_query(_split(query, count, group)), _split(key, count, group)]
    _, (scores,) = _loop(of_group, (), sequences, [(query_length, group, value_length)])
    return _join(_by_query(scores), batch, query_length, value_length)


def _sums_in_steps(query, key, upstream):
    """As `_sums_at_once`."""
    batch, query_length, units = ops.shape(query)
    value_length = ops.shape(key)[1]
    count, group = _groups(batch, value_length * units)

    def of_group(carry, queries, upstreams, keys):
        def of_query(carry, one, upstream):
            of_key, of_scale = carry
            hidden = ops.tanh(ops.expand_dims(one, 1) + keys)  # (group, Tv, U)
            squares = ops.expand_dims(upstream, -1) * ops.square(hidden)
            row = ops.matmul(ops.reshape(upstream, (1, -1)), ops.reshape(hidden, (-1, units)))
            return [of_key + squares, of_scale + row[0]], [ops.sum(squares, axis=1)]

        (of_key, of_scale), (of_query,) = _loop(
            of_query, [ops.zeros_like(keys), *carry], [queries, upstreams], [(group, units)]
        )
        return [of_scale], [of_query, of_key]

    sequences = [_by_query(_split(one, count, group)) for one in (query, upstream)]
    sequences.append(_split(key, count, group))
    shapes = [(query_length, group, units), (group, value_length, units)]
    (of_scale,), (of_query, of_key) = _loop(of_group, [ops.zeros_like(key[0, 0])], sequences, shapes)
    of_query = _join(_by_query(of_query), batch, query_length, units)
    return of_query, _join(of_key, batch, value_length, units), of_scale


def _groups(batch, numbers):
    """How many groups of how many examples, where one query of one example makes `numbers`. Ints or scalar tensors."""
    at_most = _at_least_one(LARGEST_STEP // _at_least_one(numbers))
    count = _at_least_one((batch + at_most - 1) // at_most)
    return count, (batch + count - 1) // count


def _at_least_one(size):
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)


def _split(tensor, count, group):
    """(B, T, X) → (groups, examples, T, X), zeros where the last group is short."""
    batch, length, width = ops.shape(tensor)
    missing = count * group - batch
    if not _is(missing, 0):
        tensor = ops.pad(tensor, [[0, missing], [0, 0], [0, 0]])
    return ops.reshape(tensor, (count, group, length, width))


def _join(tensor, batch, length, width):
    """(groups, examples, T, X) → (B, T, X)."""
    return ops.reshape(tensor, (-1, length, width))[:batch]


def _by_query(tensor):
    """(groups, examples, Tq, X) → (groups, Tq, examples, X), and back."""
    return ops.transpose(tensor, (0, 2, 1, 3))


def _loop(step, carry, sequences, shapes):
    """Calls `step(carry, *slices) → carry, outputs` for each slice of the sequences along their first axis.

    As `keras.ops.scan`, whose outputs must look like its carry on TensorFlow, and whose lists no converter takes where
    a length is unknown.

    Args:
        step: function.
        carry: list of tensors, or ().
        sequences: list of tensors.
        shapes: of each output, ints or scalar tensors.

    Returns:
        the last carry, and the outputs of all steps stacked along a new first axis.
    """
    if _is(ops.shape(sequences[0])[0], 1):
        carry, outputs = step(carry, *(one[0] for one in sequences))
        return carry, [ops.expand_dims(one, 0) for one in outputs]
    if keras.backend.backend() == "tensorflow":
        return _loop_of_tensorflow(step, carry, sequences, shapes)
    return ops.scan(lambda carry, slices: step(carry, *slices), carry, sequences)


def _loop_of_tensorflow(step, carry, sequences, shapes):
    import tensorflow as tf

    length, dtype = ops.shape(sequences[0])[0], sequences[0].dtype
    shapes = [tf.stack(shape) for shape in shapes]
    # What `tf.TensorArray` is made of; but that takes sizes which are known only, where it has to know any.
    lists = [
        tf.raw_ops.TensorListReserve(element_shape=shape, num_elements=length, element_dtype=dtype) for shape in shapes
    ]

    def body(index, carry, lists):
        new, outputs = step(carry, *(tf.gather(one, index) for one in sequences))
        for one, old in zip(new, carry, strict=True):
            one.set_shape(old.shape)
        lists = [
            tf.raw_ops.TensorListSetItem(input_handle=one, index=index, item=output)
            for one, output in zip(lists, outputs, strict=True)
        ]
        return index + 1, new, lists

    _, carry, lists = tf.while_loop(lambda index, *_: index < length, body, (0, carry, lists))
    stacked = [
        tf.raw_ops.TensorListStack(input_handle=one, element_shape=shape, element_dtype=dtype, num_elements=-1)
        for one, shape in zip(lists, shapes, strict=True)
    ]
    return carry, stacked

"""What the layers check of a call at their door."""

from __future__ import annotations

from keras import backend


def query_value_key(inputs):
    """`[query, value]` or `[query, value, key]` → query, value, key. Shapes may stand for tensors."""
    if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3) or _is_shape(inputs):
        raise ValueError(f"Attention wants a list [query, value] or [query, value, key]. Received {_describe(inputs)}.")
    query, value = inputs[0], inputs[1]
    return query, value, inputs[2] if len(inputs) == 3 else value


def two_masks(mask):
    """`[query_mask, value_mask]`, or one more for the key, as Keras passes them → query_mask, value_mask."""
    if mask is None:
        return None, None
    if not isinstance(mask, (list, tuple)) or len(mask) not in (2, 3):
        raise ValueError(
            f"`mask` must be a list [query_mask, value_mask], bool (B, Tq) and (B, Tv). Received {_describe(mask)}."
        )
    return mask[0], mask[1]


def checked_call(inputs, mask, attention_mask):
    """The parts of a call, checked: query, value, key, query_mask, value_mask."""
    query, value, key = query_value_key(inputs)
    check_shapes(query.shape, value.shape, key.shape)
    query_mask, value_mask = two_masks(mask)
    check_mask("query mask", query_mask, query.shape[:2])
    check_mask("value mask", value_mask, value.shape[:2])
    check_mask("attention_mask", attention_mask, (*query.shape[:2], value.shape[1]))
    return query, value, key, query_mask, value_mask


def check_shapes(query_shape, value_shape, key_shape):
    shapes = {"query": tuple(query_shape), "value": tuple(value_shape), "key": tuple(key_shape)}
    for name, shape in shapes.items():
        if len(shape) != 3:
            raise ValueError(f"`{name}` must be of rank 3, (B, T, D). Received {shape}. Add the missing axis.")
    if None not in (value_shape[1], key_shape[1]) and value_shape[1] != key_shape[1]:
        raise ValueError(
            f"`key` and `value` must have the same length Tv. Received key {shapes['key']}, value {shapes['value']}. "
            f"Pass the same padded batch to both, or omit `key`."
        )
    if None not in (query_shape[0], value_shape[0]) and query_shape[0] != value_shape[0]:
        raise ValueError(
            f"`query` and `value` must have the same batch size B. "
            f"Received query {shapes['query']}, value {shapes['value']}. Pass both of the same examples."
        )


def check_mask(name, mask, shape):
    """A mask is bool, of the rank of `shape`, and of its sizes or 1 in each axis."""
    if mask is None:
        return
    if backend.standardize_dtype(mask.dtype) != "bool":
        raise TypeError(
            f"The {name} must be bool, True = keep. Received {backend.standardize_dtype(mask.dtype)}. "
            f"Convert it, for example with `mask > 0` or `ids != 0`."
        )
    sizes = zip(mask.shape, shape, strict=False)
    if len(mask.shape) != len(shape) or any(None not in pair and pair[0] not in (1, pair[1]) for pair in sizes):
        axes = {"query mask": "(B, Tq)", "value mask": "(B, Tv)"}.get(name, "(B, Tq, Tv)")
        raise ValueError(
            f"The {name} must be {axes}, here {tuple(shape)}. Received {tuple(mask.shape)}. "
            f"The order is mask=[query_mask, value_mask]; what differs from pair to pair goes into `attention_mask`."
        )


def _is_shape(value):
    """Whether `value` is the shape of one tensor: of `[query, value]` Keras gives a list of shapes."""
    return isinstance(value, (list, tuple)) and all(size is None or isinstance(size, int) for size in value)


def _describe(value):
    if hasattr(value, "shape") or _is_shape(value):
        return f"one tensor of shape {tuple(getattr(value, 'shape', value))}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)


def check_step(query):
    """`attend` takes the query of one step, (B, Dq)."""
    if len(query.shape) != 2:
        raise ValueError(
            f"`attend` takes the query of one step, (B, Dq). Received {tuple(query.shape)}. "
            f"Pass `query[:, t]`, or call the layer for all steps at once."
        )


def check_share(name, value):
    """`value` is in [0, 1)."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"`{name}` must be a share in [0, 1). Received {value!r}.")

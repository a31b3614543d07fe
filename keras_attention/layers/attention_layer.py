"""`AttentionLayer`: the calls and the rules that all attention layers share."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import backend, ops

from keras_attention import alignments

__all__ = ["AttentionLayer", "PreparedKeys", "SoftAttention"]


class PreparedKeys(NamedTuple):
    """What an attention layer needs of the keys and values, computed once for all steps of a decoder.

    Every leaf has the batch as its first axis, so that a beam search can gather them.

    Attributes:
        key: the keys as the layer's score wants them, float (B, Tv, …).
        value: float (B, Tv, Dv).
        mask: bool (B, Tv), True = keep.
    """

    key: Any
    value: Any
    mask: Any


class AttentionLayer(keras.layers.Layer):
    """Base of the attention layers: score → align → read.

    A subclass gives `build_scorer(query_shape, value_shape, key_shape)`, `prepare(value, key, mask)` and
    `align(query, prepared, mask) → weights`, and has everything else: the calls of `keras.layers.Attention`, masks,
    dropout, the stepwise `attend`, and shapes.

    Args:
        dropout: float in [0, 1). Share of weights dropped in training; the returned weights never carry it.
        seed: int. Seed of the dropout.
    """

    def __init__(self, dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"`dropout` must be a share in [0, 1). Received {dropout!r}.")
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build(self, input_shape):
        query_shape, value_shape, key_shape = _three(input_shape)
        _check_shapes(query_shape, value_shape, key_shape)
        self.build_scorer(query_shape, value_shape, key_shape)
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        query, value, key, query_mask, value_mask = _checked(inputs, mask, attention_mask)
        prepared = self.prepare(value, key, value_mask)
        full_mask = alignments.combine_masks(
            ops.shape(query)[1],
            value_mask=value_mask,
            attention_mask=attention_mask,
            query_mask=query_mask,
            use_causal_mask=use_causal_mask,
            value_length=ops.shape(value)[1],
        )
        weights = self.align(query, prepared, full_mask)
        context = self.read(weights, prepared.value, training)
        return (context, weights) if return_attention_scores else context

    def prepare(self, value, key=None, mask=None) -> PreparedKeys:
        """Everything that depends on the keys alone.

        Args:
            value: float (B, Tv, Dv).
            key: float (B, Tv, Dk); defaults to `value`.
            mask: bool (B, Tv), True = keep; default keeps all.
        """
        key = value if key is None else key
        _check_mask("value mask", mask, value.shape[:2])
        if mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        return PreparedKeys(self.prepare_key(key), value, mask)

    def initial_state(self, prepared: PreparedKeys):
        """What the first `attend` gets as `state`: nothing for mechanisms without a memory of their own."""
        return ()

    def attend(self, query, prepared: PreparedKeys, state=(), training=None):
        """One step of a decoder.

        Args:
            query: float (B, Dq).
            prepared: what `prepare` returned.
            state: what `initial_state` or the previous `attend` returned.
            training: bool. Applies dropout.

        Returns:
            context (B, Dv), weights (B, Tv), state.
        """
        if len(query.shape) != 2:
            raise ValueError(
                f"`attend` takes the query of one step, (B, Dq). Received {tuple(query.shape)}. "
                f"Pass `query[:, t]`, or call the layer for all steps at once."
            )
        weights = self.align(ops.expand_dims(query, 1), prepared, ops.expand_dims(prepared.mask, 1))
        context = self.read(weights, prepared.value, training)
        return ops.squeeze(context, 1), ops.squeeze(weights, 1), state

    def read(self, weights, value, training=None):
        """`c = a · v`: weights (B, Tq, Tv), value (B, Tv, Dv) → context (B, Tq, Dv) in the precision of `value`."""
        if training and self.dropout > 0:
            weights = keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        return ops.matmul(ops.cast(weights, value.dtype), value)

    def compute_mask(self, inputs, mask=None):
        return _two_masks(mask)[0]

    def compute_output_shape(self, input_shape):
        query_shape, value_shape, _ = _three(input_shape)
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        query, value, key, _, _ = _checked(inputs, mask, attention_mask)
        context = keras.KerasTensor(
            self.compute_output_shape([query.shape, value.shape, key.shape]), self.compute_dtype
        )
        if not return_attention_scores:
            return context
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return context, keras.KerasTensor((*query.shape[:2], value.shape[1]), wide)

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout, "seed": self.seed}


class SoftAttention(AttentionLayer):
    """A score, softmax, and a weighted sum: what `BahdanauAttention` and `LuongAttention` have in common.

    A subclass makes its score layer in the constructor, as `self.score`.
    """

    def build_scorer(self, query_shape, value_shape, key_shape):
        if not self.score.built:  # one that was given may be
            self.score.build([query_shape, key_shape])

    def prepare_key(self, key):
        return self.score.prepare_key(key)

    def align(self, query, prepared: PreparedKeys, mask):
        """`a = softmax(e)`: query (B, Tq, Dq), mask broadcastable to (B, Tq, Tv) or None → weights (B, Tq, Tv)."""
        return alignments.softmax(self.score.score(query, prepared.key), mask)


def _three(inputs):
    """`[query, value]` or `[query, value, key]` → query, value, key. Shapes may stand for tensors."""
    if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3) or _is_shape(inputs):
        raise ValueError(f"Attention wants a list [query, value] or [query, value, key]. Received {_describe(inputs)}.")
    query, value = inputs[0], inputs[1]
    return query, value, inputs[2] if len(inputs) == 3 else value


def _two_masks(mask):
    """`[query_mask, value_mask]`, or one more for the key, as Keras passes them → query_mask, value_mask."""
    if mask is None:
        return None, None
    if not isinstance(mask, (list, tuple)) or len(mask) not in (2, 3):
        raise ValueError(
            f"`mask` must be a list [query_mask, value_mask], bool (B, Tq) and (B, Tv). Received {_describe(mask)}."
        )
    return mask[0], mask[1]


def _checked(inputs, mask, attention_mask):
    """The parts of a call, checked: query, value, key, query_mask, value_mask."""
    query, value, key = _three(inputs)
    _check_shapes(query.shape, value.shape, key.shape)
    query_mask, value_mask = _two_masks(mask)
    _check_mask("query mask", query_mask, query.shape[:2])
    _check_mask("value mask", value_mask, value.shape[:2])
    _check_mask("attention_mask", attention_mask, (*query.shape[:2], value.shape[1]))
    return query, value, key, query_mask, value_mask


def _check_shapes(query_shape, value_shape, key_shape):
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


def _check_mask(name, mask, shape):
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

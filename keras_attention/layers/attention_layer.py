"""`AttentionLayer`: the calls and the rules that all attention layers share."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.checks import (
    check_mask,
    check_shapes,
    check_share,
    check_step,
    checked_call,
    query_value_key,
    two_masks,
)

__all__ = ["AttentionLayer", "PreparedKeys"]


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


def prepared_keys(value, key=None, mask=None) -> PreparedKeys:
    """Keys as they are, with the defaults of `AttentionLayer.prepare` filled in."""
    check_mask("value mask", mask, value.shape[:2])
    if mask is None:
        mask = ops.ones(ops.shape(value)[:2], dtype="bool")
    return PreparedKeys(value if key is None else key, value, mask)


class AttentionLayer(keras.layers.Layer):
    """Base of the attention layers: score → align → read.

    A subclass gives `build_scorer(query_shape, value_shape, key_shape)`, `prepare_key(key)` and
    `align(query, prepared, mask, training) → weights`, and has everything else: the calls of
    `keras.layers.Attention`, masks, dropout, the stepwise `attend`, and shapes.

    Args:
        dropout: float in [0, 1). Share of weights dropped in training; the returned weights never carry it.
        seed: int. Seed of the dropout.
    """

    def __init__(self, dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_share("dropout", dropout)
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def build(self, input_shape):
        query_shape, value_shape, key_shape = query_value_key(input_shape)
        check_shapes(query_shape, value_shape, key_shape)
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
        query, prepared, full_mask = self.opened(inputs, mask, attention_mask, use_causal_mask)
        weights = self.align(query, prepared, full_mask, training)
        context = self.read(weights, prepared.value, training)
        return (context, weights) if return_attention_scores else context

    def opened(self, inputs, mask=None, attention_mask=None, use_causal_mask=False):
        """The parts of a call, checked: query, prepared keys, and one mask broadcastable to (B, Tq, Tv), or None."""
        query, value, key, query_mask, value_mask = checked_call(inputs, mask, attention_mask)
        prepared = self.prepare(value, key, value_mask)
        full_mask = alignments.combine_masks(
            ops.shape(query)[1],
            value_mask=value_mask,
            attention_mask=attention_mask,
            query_mask=query_mask,
            use_causal_mask=use_causal_mask,
            value_length=ops.shape(value)[1],
        )
        return query, prepared, full_mask

    def prepare(self, value, key=None, mask=None) -> PreparedKeys:
        """Everything that depends on the keys alone.

        Args:
            value: float (B, Tv, Dv).
            key: float (B, Tv, Dk); defaults to `value`.
            mask: bool (B, Tv), True = keep; default keeps all.
        """
        raw = prepared_keys(value, key, mask)
        return raw._replace(key=self.prepare_key(raw.key))

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
        check_step(query)
        weights, state = self.align_step(query, prepared, state, training)
        context = self.read(ops.expand_dims(weights, -2), prepared.value, training)
        return ops.squeeze(context, 1), weights, state

    def align_step(self, query, prepared: PreparedKeys, state, training=None):
        """The weights of one step: query (B, Dq), state → weights (B, Tv), state. By default `align` of one query."""
        weights = self.align(ops.expand_dims(query, 1), prepared, ops.expand_dims(prepared.mask, 1), training)
        return ops.squeeze(weights, -2), state

    def read(self, weights, value, training=None):
        """`c = a · v`: weights (B, Tq, Tv), value (B, Tv, Dv) → context (B, Tq, Dv) in the precision of `value`."""
        return ops.matmul(ops.cast(self.drop(weights, training), value.dtype), value)

    def drop(self, weights, training=None):
        """Dropout on the weights that are read with."""
        if training and self.dropout > 0:
            return keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        return weights

    def compute_mask(self, inputs, mask=None):
        return two_masks(mask)[0]

    def compute_output_shape(self, input_shape):
        query_shape, value_shape, _ = query_value_key(input_shape)
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
        query, value, key, _, _ = checked_call(inputs, mask, attention_mask)
        context = keras.KerasTensor(
            self.compute_output_shape([query.shape, value.shape, key.shape]), self.compute_dtype
        )
        if not return_attention_scores:
            return context
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return context, keras.KerasTensor(self.compute_weights_shape(query.shape, value.shape), wide)

    def compute_weights_shape(self, query_shape, value_shape):
        """The shape of the weights, (B, Tq, Tv)."""
        return (*query_shape[:2], value_shape[1])

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout, "seed": self.seed}

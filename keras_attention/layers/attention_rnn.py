"""`AttentionRNN`: runs a decoder cell over a sequence, beside the values instead of with them in its states."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_cell import AttentionCell
from keras_attention.layers.cell_checks import config_of, revived
from keras_attention.layers.checks import checked_call, query_value_key

__all__ = ["AttentionRNN"]


@keras.saving.register_keras_serializable("keras_attention")
class AttentionRNN(keras.layers.Layer):
    """A decoder: a `BahdanauCell` or a `LuongCell` stepped over a sequence, each step with the output before.

    The same as `keras.layers.RNN(cell, return_sequences=True)` with `cell.initial_state(value)`, called like an
    attention layer. The values stay outside of the loop: `RNN` carries them through it, which costs nothing until a
    mask of the steps comes, and then a copy a step. And the weights come apart from the outputs.

    Args:
        cell: a `BahdanauCell` or a `LuongCell`, without `return_attention_scores`.
        unroll: bool. No loop in the graph, but one step after the other; for short Tq, which must be known.

    Call arguments:
        inputs: `[embedded, value]` or `[embedded, value, key]`, float (B, Tq, E), (B, Tv, Dv), (B, Tv, Dk); key
            defaults to value.
        mask: `[query_mask, value_mask]`, bool (B, Tq), (B, Tv), True = keep; default keeps all. A masked step changes
            no state.
        initial_state: states of the inner cell, as of `AttentionCell.initial_state`; default 0.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies the dropout of the inner cell and the attention.

    Returns:
        outputs (B, Tq, O); with `return_attention_scores`, also `weights` (B, Tq, Tv), or (B, C, Tq, Tv) with channels.
        Both are 0 at masked steps, and masked weights are exactly 0.

    Raises:
        TypeError: `cell` is no cell with attention, or a mask is not bool.
        ValueError: a wrong rank, or lengths, batches or widths that differ.

    Example:
    >>> decoder = AttentionRNN(BahdanauCell(keras.layers.GRUCell(8), BahdanauAttention(units=16)))
    >>> embedded, value = keras.random.normal((2, 3, 4)), keras.random.normal((2, 5, 6))
    >>> outputs, weights = decoder([embedded, value], return_attention_scores=True)
    >>> outputs.shape, weights.shape
    (TensorShape([2, 3, 8]), TensorShape([2, 3, 5]))
    """

    def __init__(self, cell, unroll=False, **kwargs):
        super().__init__(autocast=False, **kwargs)
        cell = revived(cell)
        if not isinstance(cell, AttentionCell):
            raise TypeError(
                f"`cell` must be a BahdanauCell or a LuongCell. Received {cell!r}. "
                f"Put an RNN cell and an attention into one of them."
            )
        if cell.return_attention_scores:
            raise ValueError(
                "AttentionRNN returns the weights itself, where it is called with `return_attention_scores=True`. "
                "Received a cell that puts them into its outputs. Make the cell without `return_attention_scores`."
            )
        self.cell = cell
        self.unroll = bool(unroll)
        self.supports_masking = True

    def build(self, input_shape):
        embedded_shape, value_shape, key_shape = query_value_key(input_shape)
        self.cell.build_memory(value_shape, key_shape)
        if not self.cell.built:
            self.cell.build((embedded_shape[0], embedded_shape[-1]))
        self.built = True

    def call(self, inputs, mask=None, initial_state=None, return_attention_scores=False, training=None):
        embedded, value, key, query_mask, value_mask = checked_call(inputs, mask, None)
        cell = self.cell
        prepared = cell.prepare(value, key, value_mask)
        state = cell.start(prepared, initial_state, bool(training))
        loop = keras.layers.RNN(
            _Stepper(cell, prepared, return_attention_scores, training),
            return_sequences=True,
            zero_output_for_mask=True,
            unroll=self.unroll,
            dtype=cell.compute_dtype,
        )
        outputs = loop(embedded, initial_state=[cell.pack(state)], mask=query_mask)
        if self.unroll and query_mask is not None:  # there, not all backends do what `zero_output_for_mask` says
            outputs = ops.where(ops.expand_dims(query_mask, -1), outputs, ops.zeros_like(outputs))
        if not return_attention_scores:
            return cell.narrowed(outputs)
        outputs, weights = cell.split(outputs)
        return cell.narrowed(outputs), weights

    def compute_mask(self, inputs, mask=None):
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape):
        embedded_shape, value_shape, key_shape = query_value_key(input_shape)
        self.cell.build_memory(value_shape, key_shape)
        return (*embedded_shape[:2], self.cell.plain_size)

    def compute_output_spec(self, inputs, mask=None, initial_state=None, return_attention_scores=False, training=None):
        embedded, value, key, _, _ = checked_call(inputs, mask, None)
        shape = self.compute_output_shape([embedded.shape, value.shape, key.shape])
        if initial_state is not None:
            self.cell.checked_states(initial_state, shape[0])
        outputs = keras.KerasTensor(shape, self.cell.narrow_dtype)
        if not return_attention_scores:
            return outputs
        batch, *rest = self.cell.weights_shape(shape[0], value.shape[1])
        weights_shape = (batch, *rest[:-1], shape[1], rest[-1])
        return outputs, keras.KerasTensor(weights_shape, self.cell.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "cell": config_of(self.cell), "unroll": self.unroll}


class _Stepper:
    """A cell with its memory beside it, for the loop of `keras.layers.RNN`."""

    def __init__(self, cell, prepared, with_weights, training):
        self.cell, self.prepared = cell, prepared
        self.with_weights, self.training = with_weights, training
        self.state_size, self.output_size = cell.state_size, cell.plain_size
        self.compute_dtype = cell.compute_dtype

    def call(self, inputs, states):
        state = self.cell.unpack_without_memory(keras.tree.flatten(states), self.prepared)
        output, state = self.cell.step(inputs, state, self.training, self.with_weights)
        return output, [self.cell.pack(state)]

    __call__ = call

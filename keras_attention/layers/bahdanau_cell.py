"""`BahdanauCell`: a decoder cell that attends, then steps."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_cell import AttentionCell

__all__ = ["BahdanauCell"]


@keras.saving.register_keras_serializable("keras_attention")
class BahdanauCell(AttentionCell):
    """A decoder cell in Bahdanau's order: attends with the state before, then steps on the input and the context.

    Bahdanau et al., 2015 (arXiv 1409.0473), section 3.1 and appendix A.2.2: `c_i = attend(s_{i−1})`,
    `s_i = f(s_{i−1}, y_{i−1}, c_i)`, here `f([y; c], s)` with any RNN cell.
    Differs from the paper: its gates and its update are those of the inner cell; `s_0` is what `states` says.

    Used by `keras.layers.RNN`, which gets the values with the initial state, or by `AttentionRNN`; or step by step,
    `output, states = cell(inputs, states)`. Nothing is stored on the cell: values, coverage, counts, and the seed of
    dropout travel in the states; see `AttentionCell`. The states are float32 at least, and the masked steps of an
    `RNN` keep them.

    Args:
        cell: an RNN cell: `keras.layers.GRUCell`, `LSTMCell`, `SimpleRNNCell`, `StackedRNNCells` or one of your own
            whose first state (of a stack: of its last cell) is its output. That state is the query.
        attention: an `AttentionLayer`.
        output_context: bool. The output is [s; c], not s alone.
        return_attention_scores: bool. The outputs get the weights of each step behind them, which `split` takes apart.
        seed: int. Seed of the dropout of the inner cell and the attention. On PyTorch, Keras heeds it only in parts
            that have a `seed` of their own: there, without, the inner cell has another mask in each step.

    Call arguments:
        inputs: float (B, E), what is known of the step: the embedded token before.
        states: what `initial_state` or the step before gave.
        training: bool. Applies the dropout of the inner cell, one mask for all steps, and of the attention.

    Returns:
        output s_i, float (B, units), or [s_i; c_i], (B, units + Dv), and the states.

    Raises:
        TypeError: `cell` is no RNN cell, or `attention` no `AttentionLayer`.
        ValueError: the inner cell's first state is not its output; no or wrong states.

    Example:
    >>> cell = BahdanauCell(keras.layers.GRUCell(8), BahdanauAttention(units=16))
    >>> embedded, value = keras.random.normal((2, 3, 4)), keras.random.normal((2, 5, 6))
    >>> decoder = keras.layers.RNN(cell, return_sequences=True)
    >>> decoder(embedded, initial_state=cell.initial_state(value)).shape
    TensorShape([2, 3, 8])
    """

    def __init__(self, cell, attention, output_context=False, return_attention_scores=False, seed=None, **kwargs):
        super().__init__(cell, attention, return_attention_scores=return_attention_scores, seed=seed, **kwargs)
        self.output_context = bool(output_context)

    @property
    def fed_size(self):
        return self.context_size

    @property
    def plain_size(self):
        return self.query_size + (self.context_size if self.output_context else 0)

    def advance(self, inputs, state, training=None):
        """`c = attend(s)`, then `s = f([y; c], s)`: inputs (B, E) → output (B, O), weights, state."""
        context, weights, state = self.look(state.cell[self.top], state, training)
        output, cell = self.step_cell([inputs, context], state)
        if self.output_context:
            output = ops.concatenate([self.narrowed(output), self.narrowed(context)], axis=-1)
        return self.narrowed(output), weights, state._replace(cell=cell)

    def get_config(self):
        return {**super().get_config(), "output_context": self.output_context}

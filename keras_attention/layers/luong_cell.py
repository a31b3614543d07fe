"""`LuongCell`: a decoder cell that steps, then attends."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_cell import AttentionCell
from keras_attention.scores.base import positive_int

__all__ = ["LuongCell"]

FEEDS = ("nothing", "context", "attentional")


@keras.saving.register_keras_serializable("keras_attention")
class LuongCell(AttentionCell):
    """A decoder cell in Luong's order: steps, attends with the new state, and joins both.

    Luong et al., 2015 (arXiv 1508.04025), sections 3 and 3.3: `s_t = f([y; feed], s_{t−1})`, `c_t = attend(s_t)`,
    `h̃_t = tanh(W_c [c_t; s_t])` (equation 5). `feed` is what the step before hands on: nothing, its context c, or its
    h̃ (input feeding); 0 at the first step.
    Differs from the paper: none; it has no "context", which is common elsewhere.

    Used by `keras.layers.RNN`, which gets the values with the initial state, or by `AttentionRNN`; or step by step,
    `output, states = cell(inputs, states)`. Nothing is stored on the cell: values, coverage, counts, and the seed of
    dropout travel in the states; see `AttentionCell`. The states are float32 at least, and the masked steps of an
    `RNN` keep them.

    Args:
        cell: an RNN cell: `keras.layers.GRUCell`, `LSTMCell`, `SimpleRNNCell`, `StackedRNNCells` or one of your own
            whose first state (of a stack: of its last cell) is its output. That output is the query.
        attention: an `AttentionLayer`.
        units: int > 0. Width of h̃.
        feed: "nothing", "context" or "attentional".
        return_attention_scores: bool. The outputs get the weights of each step behind them, which `split` takes apart.
        seed: int. Seed of the dropout of the inner cell and the attention. On PyTorch, Keras heeds it only in parts
            that have a `seed` of their own: there, without, the inner cell has another mask in each step.

    Call arguments:
        inputs: float (B, E), what is known of the step: the embedded token before.
        states: what `initial_state` or the step before gave.
        training: bool. Applies the dropout of the inner cell, one mask for all steps, and of the attention.

    Returns:
        output h̃, float (B, units), and the states.

    Raises:
        TypeError: `cell` is no RNN cell, or `attention` no `AttentionLayer`.
        ValueError: `units` < 1, an unknown `feed`; the inner cell's first state is not its output; no or wrong states.

    Example:
    >>> cell = LuongCell(keras.layers.GRUCell(8), LuongAttention("general"), units=7)
    >>> embedded, value = keras.random.normal((2, 3, 4)), keras.random.normal((2, 5, 6))
    >>> decoder = keras.layers.RNN(cell, return_sequences=True)
    >>> decoder(embedded, initial_state=cell.initial_state(value)).shape
    TensorShape([2, 3, 7])
    """

    def __init__(self, cell, attention, units, feed="attentional", return_attention_scores=False, seed=None, **kwargs):
        super().__init__(cell, attention, return_attention_scores=return_attention_scores, seed=seed, **kwargs)
        self.units = positive_int("units", units)
        if feed not in FEEDS:
            raise ValueError(f"`feed` must be one of {', '.join(FEEDS)}. Received {feed!r}.")
        self.feed = feed

    @property
    def fed_size(self):
        return {"nothing": 0, "context": self.context_size, "attentional": self.units}[self.feed]

    @property
    def plain_size(self):
        return self.units

    def build_output(self):
        width = self.context_size + self.query_size
        self.combine_kernel = self.add_weight(name="combine_kernel", shape=(width, self.units))

    def advance(self, inputs, state, training=None):
        """`s = f([y; feed], s)`, `c = attend(s)`, `h̃ = tanh(W_c [c; s])`: inputs (B, E) → h̃, weights, state."""
        fed = {"nothing": [], "context": [state.context], "attentional": [state.output]}[self.feed]
        output, cell = self.step_cell([inputs, *fed], state)
        context, weights, state = self.look(output, state, training)
        both = ops.concatenate([self.narrowed(context), self.narrowed(output)], axis=-1)
        attentional = ops.tanh(ops.matmul(both, self.narrowed(self.combine_kernel)))
        return attentional, weights, state._replace(cell=cell)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "feed": self.feed}

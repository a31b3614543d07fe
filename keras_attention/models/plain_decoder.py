"""`PlainDecoder`: a recurrent decoder without attention, in one of five wirings."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.models.cell_stack import CellStack
from keras_attention.models.scan import scan
from keras_attention.models.sequences import masked_mean

__all__ = ["CONTEXTS", "WIRINGS", "PlainDecoder"]

# wiring → whether the cell sees the last token, whether it sees the context, what it starts from
WIRINGS = {
    "context": (False, True, "zeros"),
    "start": (False, False, "context"),
    "context_token": (True, True, "zeros"),
    "states": (True, False, "states"),
    "states_context": (True, True, "states"),
}
CONTEXTS = ("last", "projected_last", "projected_all")


class PlainDecoder(keras.layers.Layer):
    """Recurrent decoder that knows the input by one vector c, or by the encoder's states, and does not attend.

    Five wirings, h the state, y the token, f the cell:

    - "context": `h_i = f(U c + W h_{i-1})`, tokens are not fed back
    - "start": `h_1 = f(W c)`, `h_i = f(W h_{i-1})`, no other input
    - "context_token": `h_i = f(U c + V y_{i-1} + W h_{i-1})` (Cho et al., 2014, arXiv 1406.1078, section 2.2)
    - "states": the encoder's states, layer by layer, then y_{i-1} alone (Sutskever et al., 2014, arXiv 1409.3215)
    - "states_context": the same, with c beside y_{i-1}

    and three contexts: "last", the encoder's last top state; "projected_last", `tanh(W h)` of it; "projected_all",
    `tanh(W h)` of the mean of all its states.

    Args:
        wiring: "context", "start", "context_token", "states" or "states_context".
        context: "last", "projected_last" or "projected_all".
        cell, units, num_layers, layer_normalization, dropout: as of `AttentionDecoder`.
    """

    def __init__(self, wiring, context, cell, units, num_layers=1, layer_normalization=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.sees_token, self.sees_context, self.start = WIRINGS[wiring]
        self.context, self.units = context, units
        self.seed_generator = keras.random.SeedGenerator()
        self.stack = CellStack(
            cell, units, num_layers, layer_normalization, dropout, self.dtype_policy, self.seed_generator
        )

    maps = ()  # it looks at nothing

    @property
    def cells(self):
        return self.stack.cells

    @property
    def uses_context(self):
        return self.sees_context or self.start == "context"

    def build(self, input_shape, value_shape):
        token_units = input_shape[-1] if self.sees_token else 0
        self.stack.build((None, token_units), self.units if self.sees_context else 0, self._track)
        if self.uses_context and self.context != "last":
            self.context_projection = keras.layers.Dense(
                self.units, activation="tanh", dtype=self.dtype_policy, name="context_projection"
            )
            self.context_projection.build((None, value_shape[-1] if self.context == "projected_all" else self.units))
        self.built = True

    def _track(self, number, cell):
        setattr(self, f"cell_{number}", cell)

    def prepare(self, values, mask, states):
        """What depends on the encoder alone: c (B, units); nothing where no wiring reads it."""
        if not self.uses_context:
            return ()
        if self.context == "last":
            return states[-1][0]
        if self.context == "projected_last":
            return self.context_projection(states[-1][0])
        return self.context_projection(masked_mean(values, mask))

    def initial_state(self, encoder_states, context, training=None):
        """Everything a step carries, B first: the cells' states, and the share of c in every gate."""
        batch, dtype = ops.shape(encoder_states[0][0])[0], encoder_states[0][0].dtype
        first = self.cells[0]
        share = first.feeder(dtype)(context) if self.sees_context else ops.zeros((batch, 0), dtype)
        if self.start == "states":
            cells = [list(states) for states in encoder_states]
        else:
            cells = [[ops.zeros((batch, self.units), dtype) for _ in states] for states in encoder_states]
            if self.start == "context":
                cells[0][0] = context
        return {"cells": cells, "context": share}

    def project(self, embedded):
        """What depends on the tokens alone: embedded (…, E) → (…, gates · units)."""
        return self.stack.project(embedded)

    def stepper(self, prepared, dtype, masks=None, training=None):
        """A function (projected (B, …), state) → h (B, units), weights (B, 0), state."""
        step_cells = self.stack.stepper(dtype, masks, fed=False)

        def step(projected, state):
            if self.sees_context:
                projected = projected + state["context"]
            top, cells = step_cells(projected, state["cells"], None)
            return top, tf.zeros([tf.shape(top)[0], 0], tf.float32), {"cells": cells, "context": state["context"]}

        return step

    def call(self, embedded, encoder_states, prepared, training=None):
        """Teacher-forced: embedded (B, Tq, E) → h (B, Tq, units)."""
        step_cells = self.stack.stepper(embedded.dtype, self.stack.dropout_masks(embedded, training), fed=False)
        state, projected = self.initial_state(encoder_states, prepared), self.project(embedded)
        if self.sees_context:
            projected = projected + ops.expand_dims(state["context"], 1)
        return scan(lambda one, cells: step_cells(one, cells, None), projected, state["cells"])

"""`AttentionDecoder`: a recurrent decoder in Luong's order: step, then attend."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.models.recurrent_cells import CELLS
from keras_attention.models.scan import scan

__all__ = ["FEEDS", "AttentionDecoder"]

FEEDS = ("nothing", "context", "attentional")


class AttentionDecoder(keras.layers.Layer):
    """Recurrent decoder with attention after the step.

    Luong et al., 2015, sections 3.1 and 3.3: `s_t = f(y_{t-1}, feed, s_{t-1})`, `c_t = attend(s_t)`, `h̃_t = tanh(W_c
    [c_t; s_t])` (equation 5). `feed` says what the next step gets besides the last token: nothing, the context c, or
    h̃ (input feeding).

    Where nothing is fed, the states do not depend on the attention: `call` attends for all steps in one product.

    Args:
        attention: an `AttentionLayer`.
        cell: "gru" or "lstm".
        units: int > 0. Width of the states and of h̃.
        num_layers: int > 0. As many as the encoder has: its states are handed over layer by layer.
        feed: "nothing", "context" or "attentional".
        dropout: float in [0, 1). Between the layers; one mask for all steps of a sequence.
    """

    def __init__(self, attention, cell, units, num_layers=1, feed="attentional", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.attention, self.units, self.feed, self.dropout = attention, units, feed, dropout
        self.cell_kind, self.num_layers = cell, num_layers
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape, value_shape):
        width = {"nothing": 0, "context": value_shape[-1], "attentional": self.units}[self.feed]
        self.feed_units = width
        self.cells = []
        for number in range(self.num_layers):
            fed = width if number == 0 else 0
            cell = CELLS[self.cell_kind](self.units, fed, dtype=self.dtype_policy, name=f"{self.cell_kind}_{number}")
            cell.build(input_shape if number == 0 else (None, self.units))
            self.cells.append(cell)
        self.attention.build([(None, None, self.units), value_shape])
        self.combine_kernel = self.add_weight(name="combine_kernel", shape=(value_shape[-1] + self.units, self.units))
        self.built = True

    def initial_state(self, encoder_states, prepared):
        """Everything a step carries, B first: the cells' states, what was fed, the attention's own state."""
        batch, dtype = ops.shape(encoder_states[0][0])[0], encoder_states[0][0].dtype
        return {
            "cells": [list(states) for states in encoder_states],
            "feed": ops.zeros((batch, self.feed_units), dtype),
            "attention": self.attention.initial_state(prepared),
        }

    def project(self, embedded):
        """What depends on the tokens alone: embedded (…, E) → (…, gates · units)."""
        return self.cells[0].project(embedded)

    def stepper(self, prepared, dtype, masks=None, training=None):
        """A function (projected (B, …), state) → h̃ (B, units), weights (B, Tv), state, with all weights cast outside
        of it.
        """
        step_cells = self._cell_stepper(dtype, masks)
        combine_kernel = ops.cast(self.combine_kernel, dtype)

        def step(projected, state):
            top, cells = step_cells(projected, state["cells"], state["feed"])
            context, weights, attention = self.attention.attend(top, prepared, state["attention"], training=training)
            attentional = ops.tanh(ops.matmul(ops.concatenate([context, top], axis=-1), combine_kernel))
            feed = {"nothing": state["feed"], "context": context, "attentional": attentional}[self.feed]
            return attentional, weights, {"cells": cells, "feed": feed, "attention": attention}

        return step

    def call(self, embedded, encoder_states, prepared, training=None):
        """Teacher-forced: embedded (B, Tq, E) → h̃ (B, Tq, units)."""
        if self.feed != "nothing":
            return self.call_step_by_step(embedded, encoder_states, prepared, training=training)
        step_cells = self._cell_stepper(embedded.dtype, self._dropout_masks(embedded, training))

        def step(projected, cells):
            return step_cells(projected, cells, None)

        state = self.initial_state(encoder_states, prepared)
        tops = scan(step, self.project(embedded), state["cells"])  # (B, Tq, units)
        mask = ops.expand_dims(prepared.mask, 1)
        context = self.attention.read(self.attention.align(tops, prepared, mask), prepared.value, training)
        return ops.tanh(
            ops.matmul(ops.concatenate([context, tops], axis=-1), ops.cast(self.combine_kernel, tops.dtype))
        )

    def call_step_by_step(self, embedded, encoder_states, prepared, training=None):
        """The same as `call`, attending inside the loop, whatever is fed."""
        masks = self._dropout_masks(embedded, training)
        step_once = self.stepper(prepared, embedded.dtype, masks, training)

        def step(projected, state):
            attentional, _, state = step_once(projected, state)
            return attentional, state

        return scan(step, self.project(embedded), self.initial_state(encoder_states, prepared))

    def _cell_stepper(self, dtype, masks=None):
        steps = [cell.stepper(dtype) for cell in self.cells]
        projectors = [cell.projector(dtype) for cell in self.cells]

        def step(projected, states, feed):
            new_states = [steps[0](projected, states[0], feed)]
            for number in range(1, self.num_layers):
                below = new_states[-1][0]
                if masks is not None:
                    below = below * masks[number - 1]
                new_states.append(steps[number](projectors[number](below), states[number]))
            return new_states[-1][0], new_states

        return step

    def _dropout_masks(self, embedded, training):
        if not training or self.dropout == 0 or self.num_layers == 1:
            return None
        ones = tf.ones((tf.shape(embedded)[0], self.units), embedded.dtype)
        return [keras.random.dropout(ones, self.dropout, seed=self.seed_generator) for _ in range(self.num_layers - 1)]

"""`AttentionDecoder`: a recurrent decoder that attends, in one of three orders."""

from __future__ import annotations

import inspect

import keras
from keras import ops

from keras_attention.models.cell_stack import CellStack
from keras_attention.models.decoder_map import DecoderMap
from keras_attention.models.recurrent_cells import CELLS, normalized
from keras_attention.models.scan import scan

__all__ = ["FEEDS", "ORDERS", "AttentionDecoder"]

FEEDS = ("nothing", "context", "attentional")
ORDERS = ("luong", "bahdanau", "conditional")


class AttentionDecoder(keras.layers.Layer):
    """Recurrent decoder with attention.

    Three orders:

    - "luong" (Luong et al., 2015, sections 3.1 and 3.3): step, then attend. `s_t = f(y_{t-1}, feed, s_{t-1})`,
      `c_t = attend(s_t)`, `h̃_t = tanh(W_c [c_t; s_t])` (equation 5).
    - "bahdanau" (Bahdanau et al., 2015, section 3.1): attend, then step. `c_t = attend(s_{t-1})`,
      `s_t = f(y_{t-1}, c_t, feed, s_{t-1})`.
    - "conditional" (Sennrich et al., 2017, arXiv 1703.04357, section 2): a step on the token, attention with what it
      gives, a step on the context. `s'_t = f(y_{t-1}, feed, s_{t-1})`, `c_t = attend(s'_t)`, `s_t = g(c_t, s'_t)`.

    What comes out is h̃; in the last two orders `h̃_t = tanh(W_s s_t + W_c c_t + W_y y_{t-1} + b)`. `feed` says what the
    next step gets besides the last token: nothing, the context c, or h̃ (input feeding).

    Work that does not depend on the step leaves the loop: where nothing is fed in Luong's order, the states do not
    depend on the attention, and `call` attends for all steps in one product; where h̃ is not fed, it is computed for
    all steps at once.

    Args:
        attention: an `AttentionLayer`.
        cell: "gru" or "lstm".
        units: int > 0. Width of the states and of h̃.
        num_layers: int > 0. As many as the encoder has: its states are handed over layer by layer.
        order: "luong", "bahdanau" or "conditional".
        feed: "nothing", "context" or "attentional".
        layer_normalization: bool. In the cells and before the tanh of h̃.
        dropout: float in [0, 1). Between the layers; one mask for all steps of a sequence.
    """

    def __init__(
        self,
        attention,
        cell,
        units,
        num_layers=1,
        order="luong",
        feed="attentional",
        layer_normalization=False,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.attention, self.units, self.order, self.feed = attention, units, order, feed
        self.layer_normalization = layer_normalization
        self.seed_generator = keras.random.SeedGenerator()
        self.stack = CellStack(
            cell, units, num_layers, layer_normalization, dropout, self.dtype_policy, self.seed_generator
        )

    maps = (DecoderMap("decoder", "decoder/attention"),)

    @property
    def cells(self):
        return self.stack.cells

    def build(self, input_shape, value_shape):
        context_units = value_shape[-1]
        self.feed_units = {"nothing": 0, "context": context_units, "attentional": self.units}[self.feed]
        fed = self.feed_units + (context_units if self.order == "bahdanau" else 0)
        self.stack.build(input_shape, fed, self._track)
        if self.order == "conditional":
            self.context_cell = CELLS[self.stack.kind](
                self.units, layer_normalization=self.layer_normalization, dtype=self.dtype_policy, name="context_cell"
            )
            self.context_cell.build((None, context_units))
        self.attention.build([(None, None, self.units), value_shape])
        self.combine_kernel = self.add_weight(name="combine_kernel", shape=(context_units + self.units, self.units))
        if self.order != "luong":
            self.token_kernel = self.add_weight(name="token_kernel", shape=(input_shape[-1], self.units))
            self.combine_bias = self.add_weight(name="combine_bias", shape=(self.units,), initializer="zeros")
        if self.layer_normalization:
            self.combine_gain = self.add_weight(name="combine_gain", shape=(self.units,), initializer="ones")
        self.built = True

    def _track(self, number, cell):
        setattr(self, f"cell_{number}", cell)

    def prepare(self, values, mask, states):
        """What depends on the encoder alone: values (B, Tv, Dv), mask (B, Tv), its last states → `PreparedKeys`."""
        return self.attention.prepare(values, mask=mask)

    def initial_state(self, encoder_states, prepared, training=None):
        """Everything a step carries, B first: the cells' states, what was fed, the attention's own state."""
        takes = inspect.signature(self.attention.initial_state).parameters
        random = {"training": training} if "training" in takes else {}  # what draws samples seeds them here
        batch, dtype = ops.shape(encoder_states[0][0])[0], encoder_states[0][0].dtype
        return {
            "cells": [list(states) for states in encoder_states],
            "feed": ops.zeros((batch, self.feed_units), dtype),
            "attention": self.attention.initial_state(prepared, **random),
        }

    def project(self, embedded):
        """What depends on the tokens alone: embedded (…, E) → (…, gates · units), and where h̃ sees the token, its
        share (…, units) behind it.
        """
        projected = self.stack.project(embedded)
        if self.order == "luong":
            return projected
        token = ops.matmul(embedded, ops.cast(self.token_kernel, embedded.dtype))
        return ops.concatenate([projected, token + ops.cast(self.combine_bias, embedded.dtype)], axis=-1)

    def stepper(self, prepared, dtype, masks=None, training=None):
        """A function (projected (B, …), state) → h̃ (B, units), weights (B, Tv), state, with all weights cast outside
        of it.
        """
        core = self._core(prepared, dtype, masks, training)
        combine = self._combiner(dtype)

        def step(projected, state):
            top, context, weights, cells, attention = core(projected, state)
            attentional = combine(top, context, projected)
            if len(weights.shape) == 3:  # a row a channel: their mean is shown
                weights = ops.mean(weights, axis=1)
            feed = {"nothing": state["feed"], "context": context, "attentional": attentional}[self.feed]
            return attentional, weights, {"cells": cells, "feed": feed, "attention": attention}

        return step

    def call(self, embedded, encoder_states, prepared, training=None):
        """Teacher-forced: embedded (B, Tq, E) → h̃ (B, Tq, units)."""
        if self.feed == "attentional":
            return self.call_step_by_step(embedded, encoder_states, prepared, training=training)
        projected, state = self.project(embedded), self.initial_state(encoder_states, prepared, training)
        masks = self.stack.dropout_masks(embedded, training)
        if self.feed == "nothing" and self.order == "luong":
            step_cells = self.stack.stepper(embedded.dtype, masks)
            tops = scan(lambda one, cells: step_cells(one, cells, None), projected, state["cells"])
            weights = self.attention.align(tops, prepared, ops.expand_dims(prepared.mask, 1), training)
            context = self.attention.read(weights, prepared.value, training)
        else:
            both = scan(self._without_output(prepared, embedded.dtype, masks, training), projected, state)
            tops, context = both[..., : self.units], both[..., self.units :]
        return self._combiner(embedded.dtype)(tops, context, projected)

    def _without_output(self, prepared, dtype, masks, training):
        """A function (projected, state) → [s; c], state."""
        core = self._core(prepared, dtype, masks, training)

        def step(projected, state):
            top, context, _, cells, attention = core(projected, state)
            feed = context if self.feed == "context" else state["feed"]
            return ops.concatenate([top, context], axis=-1), {"cells": cells, "feed": feed, "attention": attention}

        return step

    def call_step_by_step(self, embedded, encoder_states, prepared, training=None):
        """The same as `call`, everything inside the loop, whatever is fed."""
        masks = self.stack.dropout_masks(embedded, training)
        step_once = self.stepper(prepared, embedded.dtype, masks, training)

        def step(projected, state):
            attentional, _, state = step_once(projected, state)
            return attentional, state

        return scan(step, self.project(embedded), self.initial_state(encoder_states, prepared, training))

    def _core(self, prepared, dtype, masks, training):
        """A function (projected, state) → s, c, weights, states of the cells, state of the attention."""
        step_cells = self.stack.stepper(dtype, masks)
        columns = self.stack.columns

        def attend(query, state):
            return self.attention.attend(query, prepared, state["attention"], training=training)

        def luong(projected, state):
            top, cells = step_cells(projected, state["cells"], state["feed"])
            context, weights, attention = attend(top, state)
            return top, context, weights, cells, attention

        def bahdanau(projected, state):
            context, weights, attention = attend(state["cells"][-1][0], state)
            fed = ops.concatenate([context, state["feed"]], axis=-1)
            top, cells = step_cells(projected[:, :columns], state["cells"], fed)
            return top, context, weights, cells, attention

        def conditional(projected, state):
            middle, cells = step_cells(projected[:, :columns], state["cells"], state["feed"])
            context, weights, attention = attend(middle, state)
            last = step_context(project_context(context), cells[-1])
            return last[0], context, weights, [*cells[:-1], last], attention

        if self.order == "conditional":
            step_context, project_context = self.context_cell.stepper(dtype), self.context_cell.projector(dtype)
        return {"luong": luong, "bahdanau": bahdanau, "conditional": conditional}[self.order]

    def _combiner(self, dtype):
        """A function s, c, projected → h̃."""
        kernel = ops.cast(self.combine_kernel, dtype)
        gain = ops.cast(self.combine_gain, dtype) if self.layer_normalization else None
        columns = self.stack.columns

        def combine(top, context, projected):
            hidden = ops.matmul(ops.concatenate([context, top], axis=-1), kernel)
            if self.order != "luong":
                hidden = hidden + projected[..., columns:]
            return ops.tanh(hidden if gain is None else normalized(hidden, gain))

        return combine

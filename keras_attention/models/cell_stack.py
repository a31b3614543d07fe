"""`CellStack`: recurrent cells, one on top of the other, as a decoder steps them."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_attention.models.recurrent_cells import CELLS

__all__ = ["CellStack"]


class CellStack:
    """Cells of one kind; the first gets the token and what is fed, each other the state below it.

    It holds no weights of its own: the decoder that makes it owns the cells.

    Args:
        kind: "gru" or "lstm".
        units, num_layers: int > 0.
        layer_normalization: bool.
        dropout: float in [0, 1). Between the layers; one mask for all steps of a sequence.
        dtype: dtype policy of the cells.
        seed_generator: `keras.random.SeedGenerator` of the owner.
    """

    def __init__(self, kind, units, num_layers, layer_normalization, dropout, dtype, seed_generator):
        self.kind, self.units, self.num_layers, self.dropout = kind, units, num_layers, dropout
        self.layer_normalization, self.dtype = layer_normalization, dtype
        self.seed_generator = seed_generator
        self.cells = []

    @property
    def columns(self):
        """Width of what `project` gives."""
        return self.cells[0].gates * self.units

    def build(self, input_shape, feed_units, track):
        """Makes the cells; `track(number, cell)` lets the owner keep each."""
        for number in range(self.num_layers):
            cell = CELLS[self.kind](
                self.units,
                0 if number else feed_units,
                layer_normalization=self.layer_normalization,
                dtype=self.dtype,
                name=f"{self.kind}_{number}",
            )
            cell.build((None, self.units) if number else input_shape)
            self.cells.append(cell)
            track(number, cell)

    def project(self, inputs):
        return self.cells[0].project(inputs)

    def stepper(self, dtype, masks=None, fed=True):
        """A function (projected (B, columns), states layer by layer, feed) → top state (B, units), states.

        With `fed` false, what is fed is part of `projected` already.
        """
        steps = [cell.stepper(dtype, fed) for cell in self.cells]
        projectors = [cell.projector(dtype) for cell in self.cells[1:]]

        def step(projected, states, feed):
            new_states = [steps[0](projected, states[0], feed)]
            for number in range(1, self.num_layers):
                below = new_states[-1][0]
                if masks is not None:
                    below = below * masks[number - 1]
                new_states.append(steps[number](projectors[number - 1](below), states[number]))
            return new_states[-1][0], new_states

        return step

    def dropout_masks(self, embedded, training):
        """One mask (B, units) for each place between two layers, or None."""
        if not training or self.dropout == 0 or self.num_layers == 1:
            return None
        ones = tf.ones((tf.shape(embedded)[0], self.units), embedded.dtype)
        return [keras.random.dropout(ones, self.dropout, seed=self.seed_generator) for _ in range(self.num_layers - 1)]

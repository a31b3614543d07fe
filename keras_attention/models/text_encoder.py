"""`TextEncoder`: embedded words into states, by recurrent layers, by directional attention, or not at all."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers import MultiDimAttention
from keras_attention.models.recurrent_encoder import RecurrentEncoder

__all__ = ["ENCODERS", "DirectionalEncoder", "make_encoder"]

ENCODERS = ("lstm", "gru", "directional", "none")


def make_encoder(kind, units, input_width, num_layers=1, dropout=0.0, dtype=None, name="encoder"):
    """An encoder (B, T, E) → (B, T, D), built.

    Args:
        kind: "lstm" or "gru", in both directions; "directional", see `DirectionalEncoder`; "none".
        units: int > 0. D, even; of "none" E is.
        input_width: int. E.
        num_layers: int > 0, of recurrent layers.
        dropout: float in [0, 1). Between the layers.

    Returns:
        A function or layer of (values, mask, training), and D.
    """
    if kind == "none":
        return None, input_width
    if kind == "directional":
        layer = DirectionalEncoder(units // 2, dtype=dtype, name=name)
    else:
        layer = RecurrentEncoder(kind, units, num_layers, True, dropout=dropout, dtype=dtype, name=name)
    layer.build((None, None, input_width))
    return layer, units


class DirectionalEncoder(keras.layers.Layer):
    """Directional self-attention, forwards and backwards, without recurrence.

    Shen et al., 2018 (arXiv 1709.04696), section 3.2 and figure 3: `h = elu(W x + b)`; every word attends, in each
    channel, to the words after it (backwards: before it) by `c · tanh([W₁ h_i + W₂ h_j + b] / c)`; a gate
    `F = σ(W₁ s + W₂ h + b)` mixes what was read with the word itself, `F ⊙ h + (1 − F) ⊙ s`; both directions stand side
    by side.
    Differs from the paper: the score is that of `MultiDimAttention`, `Wᵀ tanh(W₁ k + W₂ q + b)`, without their scale c;
    a word without any other on its side reads nothing, where theirs reads all alike.

    Args:
        units: int > 0. Width of each direction.

    Call arguments:
        inputs: float (B, T, E).
        mask: bool (B, T), True = keep.

    Returns:
        (B, T, 2 · units). A list with it, and None, as `RecurrentEncoder` returns values and states.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units = units
        policy = self.dtype_policy
        self.project = keras.layers.Dense(units, activation="elu", dtype=policy, name="project")
        self.attentions = [MultiDimAttention(units=units, dtype=policy, name=name) for name in ("forward", "backward")]
        self.gates = [
            keras.layers.Dense(units, activation="sigmoid", dtype=policy, name=f"gate_{name}")
            for name in ("forward", "backward")
        ]

    def build(self, input_shape):
        self.project.build(input_shape)
        hidden = (*input_shape[:-1], self.units)
        for attention, gate in zip(self.attentions, self.gates, strict=True):
            attention.build([hidden, hidden])
            gate.build((*hidden[:-1], 2 * self.units))
        self.built = True

    def call(self, inputs, mask=None, training=None):
        hidden = self.project(inputs)
        place = ops.arange(ops.shape(hidden)[1])
        sides = place[:, None] < place[None, :], place[:, None] > place[None, :]
        found = []
        for attention, gate, side in zip(self.attentions, self.gates, sides, strict=True):
            read = attention([hidden, hidden], mask=[mask, mask], attention_mask=side[None], training=training)
            share = gate(ops.concatenate([read, hidden], axis=-1))
            found.append(share * hidden + (1 - share) * read)
        return ops.concatenate(found, axis=-1), None

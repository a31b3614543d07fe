"""`DirectionalEncoder`: self-attention that knows the order of words without recurrence."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers import MultiDimAttention

__all__ = ["DirectionalEncoder"]


class DirectionalEncoder(keras.layers.Layer):
    """Directional self-attention: each place looks at those before it and, apart from that, at those behind it.

    Shen et al., 2018 (arXiv 1709.04696), sections 4.1 and 4.2: `h = elu(W x + b)`; in each direction, multi-dimensional
    attention among the h gives s, of which a place sees neither itself nor what lies in the other direction; a gate
    `F = σ(W_s s + W_h h + b_f)` mixes them, `u = F ⊙ h + (1 − F) ⊙ s`. The u of both directions stand side by side.
    Differs from the paper: the score is that of its section 3.1, with a hidden layer of `attention_units`, not the
    scaled hyperbolic tangent of its section 4.1; a place that sees nothing gets s = 0.

    Args:
        units: int > 0, even. Width of what comes out, both directions together.
        attention_units: int > 0. Width of the hidden layer of the scores.
        dropout: float in [0, 1). Share of h dropped in training.

    Call arguments:
        inputs: float (B, T, E).
        mask: bool (B, T), True = keep.
        training: bool. Applies dropout.

    Returns:
        float (B, T, units); 0 on masked places.
    """

    def __init__(self, units, attention_units, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        width, policy = units // 2, self.dtype_policy
        self.units = units
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        self.directions = {}
        for name in ("forward", "backward"):
            parts = (
                keras.layers.Dense(width, activation="elu", dtype=policy, name=f"{name}_hidden"),
                MultiDimAttention(attention_units, dtype=policy, name=f"{name}_attention"),
                keras.layers.Dense(width, activation="sigmoid", dtype=policy, name=f"{name}_gate"),
            )
            for part in parts:
                setattr(self, part.name, part)
            self.directions[name] = [part.name for part in parts]

    def build(self, input_shape):
        states = (*input_shape[:-1], self.units // 2)
        for names in self.directions.values():
            hidden, attention, gate = (getattr(self, name) for name in names)
            hidden.build(input_shape)
            attention.build([states, states])
            gate.build((*input_shape[:-1], self.units))
        self.built = True

    def call(self, inputs, mask, training=None):
        places = ops.arange(ops.shape(inputs)[1])
        earlier = ops.expand_dims(places, 1) > places  # (Tq, Tv): the value stands before the query
        sees = {"forward": earlier, "backward": ops.transpose(earlier)}
        kept = ops.expand_dims(ops.cast(mask, inputs.dtype), -1)
        read = []
        for direction, names in self.directions.items():
            hidden, attention, gate = (getattr(self, name) for name in names)
            states = self.dropout(hidden(inputs), training=training)
            allowed = ops.logical_and(ops.expand_dims(mask, 1), sees[direction])  # (B, Tq, Tv)
            seen = attention([states, states], mask=[mask, mask], attention_mask=allowed, training=training)
            share = gate(ops.concatenate([seen, states], axis=-1))
            read.append((share * states + (1 - share) * seen) * kept)
        return ops.concatenate(read, axis=-1)

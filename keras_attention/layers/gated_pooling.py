"""`GatedPooling`: attentive pooling with a gate on each unit of its hidden layer."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.sequence_pooling import ScoredPooling
from keras_attention.precision import wide_range
from keras_attention.scores.base import positive_int

__all__ = ["GatedPooling"]


@keras.saving.register_keras_serializable("keras_attention")
class GatedPooling(ScoredPooling):
    """Gated attentive pooling: gates let through what of the hidden layer may count, and it becomes one vector.

    Ilse et al., 2018 (arXiv 1802.04712), equation 9, the gated attention mechanism: `a = softmax(w · (tanh(V h_t) ⊙
    σ(U h_t)))`, read as in their equation 7, `z = Σ_t a_t h_t`. tanh is nearly linear about 0, the gate is not.
    Differs from the paper: none.

    Args:
        units: int > 0. Width of the hidden layer and of its gates.
        alignment: str ("softmax", "sparsemax", "entmax15", "argmax") or function of score (B, T) and mask (B, T), or
            None, → weights; see `keras_attention.alignments.get`.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the dropout.

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep; default is the mask that Keras passes on, or keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.

    Returns:
        `context` (B, D); with `return_attention_scores`, also `weights` (B, T), before dropout. Masked weights are
        exactly 0; where nothing is kept all are 0, and the context too. The context has no mask.

    Raises:
        ValueError: `units` < 1, `dropout` outside [0, 1), an unknown `alignment`, or a wrong rank.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = GatedPooling(units=16)
    >>> context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 6]), TensorShape([2, 5]))
    """

    def __init__(self, units, alignment="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(alignment=alignment, dropout=dropout, seed=seed, **kwargs)
        self.units = positive_int("units", units)

    def build_pooling(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], self.units))
        self.gate_kernel = self.add_weight(name="gate_kernel", shape=(input_shape[-1], self.units))
        small = keras.initializers.RandomUniform(-0.1, 0.1)
        self.query = self.add_weight(name="query", shape=(self.units,), initializer=small)

    def score(self, inputs):
        dtype = inputs.dtype
        hidden = ops.tanh(ops.matmul(inputs, ops.cast(self.kernel, dtype)))  # (B, T, U)
        gate = ops.sigmoid(ops.matmul(inputs, ops.cast(self.gate_kernel, dtype)))
        hidden, query = wide_range(hidden * gate, ops.cast(self.query, dtype))
        return ops.einsum("btu,u->bt", hidden, query)

    def get_config(self):
        return {**super().get_config(), "units": self.units}

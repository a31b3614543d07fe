"""`AttentivePooling`: a sequence read as a learnt query wants it."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.sequence_pooling import ScoredPooling
from keras_attention.precision import wide_range
from keras_attention.scores.base import positive_int

__all__ = ["AttentivePooling"]


@keras.saving.register_keras_serializable("keras_attention")
class AttentivePooling(ScoredPooling):
    """Attentive pooling: a learnt query looks at each place of a sequence, and the sequence becomes one vector.

    Yang et al., 2016 (NAACL, N16-1174), equations 5 to 7: `u_t = tanh(W h_t + b)`, `α = softmax(u_t · u_w)`,
    `s = Σ_t α_t h_t`; u_w, their context vector, is the weight `query`.
    With `units=None` as Zhou et al., 2016 (ACL, P16-2034), section "Attention": `M = tanh(H)`, `α = softmax(wᵀ M)`,
    `r = H αᵀ`, w being `query`; the tanh that they apply to r comes after this layer.
    Differs from the papers: none.

    Args:
        units: int > 0, width of the hidden layer; or None for no hidden layer, the tanh of the sequence itself.
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
    >>> layer = AttentivePooling(units=16)
    >>> context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 6]), TensorShape([2, 5]))
    """

    def __init__(self, units, alignment="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(alignment=alignment, dropout=dropout, seed=seed, **kwargs)
        self.units = None if units is None else positive_int("units", units)

    def build_pooling(self, input_shape):
        width = input_shape[-1]
        if self.units is not None:
            self.kernel = self.add_weight(name="kernel", shape=(width, self.units))
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
            width = self.units
        small = keras.initializers.RandomUniform(-0.1, 0.1)
        self.query = self.add_weight(name="query", shape=(width,), initializer=small)

    def score(self, inputs):
        dtype = inputs.dtype
        if self.units is not None:
            inputs = ops.matmul(inputs, ops.cast(self.kernel, dtype)) + ops.cast(self.bias, dtype)  # (B, T, U)
        hidden, query = wide_range(ops.tanh(inputs), ops.cast(self.query, dtype))
        return ops.einsum("btu,u->bt", hidden, query)

    def get_config(self):
        return {**super().get_config(), "units": self.units}

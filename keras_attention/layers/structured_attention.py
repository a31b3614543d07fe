"""`StructuredAttention`: a sequence read in several rows."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention import alignments
from keras_attention.layers.checks import check_share
from keras_attention.layers.sequence_pooling import check_rank, check_sequence_mask
from keras_attention.precision import wide_range
from keras_attention.scores.base import positive_int

__all__ = ["StructuredAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class StructuredAttention(keras.layers.Layer):
    """Structured self-attention: reads a sequence r times, each time looking elsewhere, into a matrix of r rows.

    Lin et al., 2017 (arXiv 1703.03130), equations 6 and 7: `A = softmax(W₂ tanh(W₁ Hᵀ))`, `M = A H`; the penalty that
    keeps the rows apart, equation 8, is `weights_regularizer=OrthogonalityRegularizer(…)`.
    Differs from the paper: none.

    Args:
        rows: int > 0. r.
        units: int > 0. Width of the hidden layer, the paper's d_a.
        weights_regularizer: a `keras.regularizers.Regularizer` of the weights (B, r, T), its config, or None. Its
            value is added to the losses of the layer at each call.
        dropout: float in [0, 1). Share of weights dropped in training.
        seed: int. Seed of the dropout.

    Call arguments:
        inputs: float (B, T, D), H.
        mask: bool (B, T), True = keep; default keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.

    Returns:
        `context` (B, r, D); with `return_attention_scores`, also `weights` (B, r, T), before dropout. Masked weights
        are exactly 0; where nothing is kept all are 0.

    Raises:
        ValueError: `rows` or `units` < 1, `dropout` outside [0, 1), or a wrong rank.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = StructuredAttention(rows=4, units=16)
    >>> context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    >>> context.shape, weights.shape
    (TensorShape([2, 4, 6]), TensorShape([2, 4, 5]))
    """

    def __init__(self, rows, units, weights_regularizer=None, dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rows = positive_int("rows", rows)
        self.units = positive_int("units", units)
        self.weights_regularizer = keras.regularizers.get(weights_regularizer)
        check_share("dropout", dropout)
        self.dropout = dropout
        self.seed = seed
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)
        self.supports_masking = True

    def build(self, input_shape):
        check_rank("sequence", input_shape)
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], self.units))
        self.row_kernel = self.add_weight(name="row_kernel", shape=(self.units, self.rows))
        self.built = True

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        check_sequence_mask("mask", mask, inputs.shape[:2])
        hidden = ops.tanh(ops.matmul(inputs, ops.cast(self.kernel, inputs.dtype)))  # (B, T, U)
        hidden, row_kernel = wide_range(hidden, ops.cast(self.row_kernel, inputs.dtype))
        score = ops.einsum("btu,ur->brt", hidden, row_kernel)
        weights = alignments.softmax(score, None if mask is None else ops.expand_dims(mask, 1))
        if self.weights_regularizer is not None:
            self.add_loss(self.weights_regularizer(weights))
        read = weights
        if training and self.dropout > 0:
            read = keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        context = ops.matmul(ops.cast(read, inputs.dtype), inputs)
        return (context, weights) if return_attention_scores else context

    def compute_mask(self, inputs, mask=None):
        """None: all rows of the matrix count, whatever was masked in the sequence."""
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.rows, input_shape[-1])

    def compute_output_spec(self, inputs, mask=None, return_attention_scores=False, training=None):
        check_sequence_mask("mask", mask, inputs.shape[:2])
        context = keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)
        if not return_attention_scores:
            return context
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return context, keras.KerasTensor((inputs.shape[0], self.rows, inputs.shape[1]), wide)

    def get_config(self):
        return {
            **super().get_config(),
            "rows": self.rows,
            "units": self.units,
            "weights_regularizer": keras.regularizers.serialize(self.weights_regularizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }

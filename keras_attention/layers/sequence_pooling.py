"""`SequencePooling`: what all poolings share, from a sequence to one vector."""

from __future__ import annotations

import keras
from keras import backend, ops

from keras_attention import alignments
from keras_attention.layers.checks import check_share

__all__ = ["ScoredPooling", "SequencePooling", "check_rank", "check_sequence_mask"]


def check_rank(name, shape, axes="(B, T, D)"):
    """`shape` has as many axes as `axes` names."""
    rank = len(axes.split(","))
    if len(shape) != rank:
        raise ValueError(
            f"The {name} must be of rank {rank}, {axes}. Received {tuple(shape)}. "
            f"{'Add the missing axis' if len(shape) < rank else 'Take an axis away, or merge two'}."
        )


def check_sequence_mask(name, mask, shape, axes="(B, T)"):
    """A mask over the places of a sequence is bool and of the sizes of `shape`, as far as they are known."""
    if mask is None:
        return
    dtype = backend.standardize_dtype(mask.dtype)
    if dtype != "bool":
        raise TypeError(
            f"The {name} must be bool, True = keep. Received {dtype}. "
            f"Convert it, for example with `mask > 0` or `ids != 0`."
        )
    sizes = zip(mask.shape, shape, strict=False)
    if len(mask.shape) != len(shape) or any(None not in pair and pair[0] != pair[1] for pair in sizes):
        raise ValueError(
            f"The {name} must be {axes}, here {tuple(shape)}. Received {tuple(mask.shape)}. "
            f"Give one bool for each place, True = keep."
        )


class SequencePooling(keras.layers.Layer):
    """Base of the poolings: a sequence read into one vector, with the weight that each of its places had.

    All are called alike, so that one stands in for another. A subclass gives `weigh(inputs, mask) → weights` (B, T),
    and `build_pooling(input_shape)` where it has weights of its own.

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep; default is the mask that Keras passes on, or keeps all.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout, where there is some.

    Returns:
        `context` (B, D); with `return_attention_scores`, also `weights` (B, T), before dropout. Masked weights are
        exactly 0; where nothing is kept all are 0, and the context too.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        check_rank("sequence", input_shape)
        self.build_pooling(input_shape)
        self.built = True

    def build_pooling(self, input_shape):
        """Makes the weights of the layer: none by default."""

    def call(self, inputs, mask=None, return_attention_scores=False, training=None):
        self.check_call(inputs, mask)
        weights = self.weigh(inputs, mask)
        context = self.read(weights, inputs, training)
        return (context, weights) if return_attention_scores else context

    def check_call(self, inputs, mask):
        check_rank("sequence", inputs.shape)
        check_sequence_mask("mask", mask, inputs.shape[:2])

    def weigh(self, inputs, mask):
        """inputs (B, T, D), mask (B, T) or None → weights (B, T)."""
        raise TypeError(
            f"{type(self).__name__} defines no `weigh(inputs, mask)`. Every subclass of SequencePooling must."
        )

    def read(self, weights, inputs, training=None):
        """`Σ_t a_t h_t`: weights (B, T), inputs (B, T, D) → context (B, D) in the precision of `inputs`."""
        return ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(weights, inputs.dtype), 1), inputs), 1)

    def compute_mask(self, inputs, mask=None):
        """None: no place of the sequence is left."""
        return None

    def compute_output_shape(self, input_shape):
        check_rank("sequence", input_shape)
        return (input_shape[0], input_shape[-1])

    def compute_output_spec(self, inputs, mask=None, return_attention_scores=False, training=None):
        self.check_call(inputs, mask)
        context = keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)
        if not return_attention_scores:
            return context
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        return context, keras.KerasTensor(inputs.shape[:2], wide)


class ScoredPooling(SequencePooling):
    """Base of the poolings that learn what to look at. A subclass gives `score(inputs) → score` (B, T).

    Args:
        alignment: str ("softmax", "sparsemax", "entmax15", "argmax") or function of score (B, T) and mask (B, T), or
            None, → weights; see `keras_attention.alignments.get`.
        dropout: float in [0, 1). Share of weights dropped in training; the returned weights never carry it.
        seed: int. Seed of the dropout.
    """

    def __init__(self, alignment="softmax", dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.alignment = alignments.get(alignment)
        check_share("dropout", dropout)
        self.dropout = dropout
        self.seed = seed
        if dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(seed=seed)

    def weigh(self, inputs, mask):
        return self.alignment(self.score(inputs), mask)

    def score(self, inputs):
        """inputs (B, T, D) → score (B, T)."""
        raise TypeError(f"{type(self).__name__} defines no `score(inputs)`. Every subclass of ScoredPooling must.")

    def read(self, weights, inputs, training=None):
        if training and self.dropout > 0:
            weights = keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        return super().read(weights, inputs, training)

    def get_config(self):
        return {
            **super().get_config(),
            "alignment": alignments.serialize(self.alignment),
            "dropout": self.dropout,
            "seed": self.seed,
        }

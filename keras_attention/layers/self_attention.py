"""`SelfAttention`: a sequence that looks at itself."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_heads import AttentionHeads, check_shape_of_mask
from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.key_value_cache import KeyValueCache

__all__ = ["SelfAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class SelfAttention(AttentionHeads):
    """Attention of a sequence to itself: its positions are the queries, the keys and the values.

    Vaswani et al., 2017 (arXiv 1706.03762), sections 3.2.2 and 3.2.3: `MultiHeadAttention` with Q = K = V, one tensor
    in and one out. Differs from the paper: as `MultiHeadAttention`; one head unless told otherwise.

    For decoders, position after position, with the past kept in a cache:

        state = layer.initial_state(batch_size, max_length)
        output, weights, state = layer.attend(inputs, state)                # one position, (B, D)

    which gives what a call with `use_causal_mask=True` gives for that position.

    Args:
        num_heads: int > 0. H.
        key_dim: int > 0. Width of a head's queries and keys; by default D / H, which must be whole.
        value_dim: int > 0. Width of a head's values; `key_dim` by default.
        dropout, use_bias, output_shape, and the keywords score, units, alignment, seed, initializers, regularizers and
            constraints: as `MultiHeadAttention`.

    Call arguments:
        inputs: float (B, T, D).
        mask: bool (B, T), True = keep: of the positions as queries and as values; by default the one that Keras
            propagates, which passes on to the output.
        attention_mask: bool (B, T, T), or (B, H, T, T), a mask for each head. True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Position t sees positions 0 … t only.
        inputs_mask: for Keras, which puts there what it propagates if an `attention_mask` is given.

    Returns:
        `output` (B, T, Dout), Dout = D by default; with `return_attention_scores`, also `weights` (B, H, T, T), before
        dropout. Masked weights are exactly 0; a row with nothing to keep, or masked itself, is all 0, and so is its
        output.

    Raises:
        ValueError: a number of heads that does not divide D where there is no `key_dim`, a wrong rank, a mask of
            another shape, and what `MultiHeadAttention` refuses.
        TypeError: a mask that is not bool.

    Example:
    >>> model = keras.Sequential([keras.layers.Embedding(100, 32, mask_zero=True), SelfAttention(num_heads=4)])
    >>> model(np.array([[5, 7, 9], [3, 0, 0]])).shape
    TensorShape([2, 3, 32])
    """

    def __init__(
        self, num_heads=1, key_dim=None, value_dim=None, dropout=0.0, use_bias=True, output_shape=None, **kwargs
    ):
        super().__init__(num_heads, key_dim, value_dim, dropout, use_bias, output_shape, **kwargs)

    def build(self, input_shape):
        _check_rank(input_shape)
        key_dim = self.key_dim
        if key_dim is None:
            width = input_shape[-1]
            if width % self.num_heads:
                raise ValueError(
                    f"num_heads={self.num_heads} does not divide the width {width} of the inputs. "
                    f"Choose one that does, or give the width of a head as `key_dim`."
                )
            key_dim = width // self.num_heads
        self.build_heads(input_shape, input_shape, input_shape, key_dim, self.value_dim or key_dim)

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        inputs_mask=None,
    ):
        mask = inputs_mask if mask is None else mask
        self._check_call(inputs, mask, attention_mask)
        pairs = self.pair_mask(inputs, inputs, mask, mask, attention_mask, use_causal_mask)
        prepared = PreparedKeys(*self.project(inputs, inputs), None)
        output, weights = self.look(inputs, prepared, pairs, training, return_attention_scores)
        return (output, weights) if return_attention_scores else output

    def initial_state(self, batch_size, max_length) -> KeyValueCache:
        """The state before the first position: an empty cache, with room for `max_length` positions."""
        return self.empty_cache(batch_size, max_length)

    def attend(self, inputs, state: KeyValueCache, training=None, mask=None):
        """One position more: keeps it, and attends from it to all kept so far, itself too.

        Args:
            inputs: float (B, D).
            state: what `initial_state` or the previous `attend` returned.
            training: bool. Applies dropout.
            mask: bool (B,), True = keep; default keeps all. A masked position sees nothing and is never looked at.

        Returns:
            output (B, Dout), weights (B, H, max_length), 0 at the positions to come, and the new state.
        """
        state = self.extend(state, inputs, mask=mask)
        places = ops.expand_dims(state.mask, (1, 2))
        if mask is not None:
            places = ops.logical_and(places, ops.expand_dims(mask, (1, 2, 3)))
        return *self.step(inputs, state, places, training), state

    def compute_output_shape(self, input_shape):
        return self.shape_of_output(input_shape)

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        inputs_mask=None,
    ):
        self._check_call(inputs, inputs_mask if mask is None else mask, attention_mask)
        return self.spec_of(inputs.shape, inputs.shape, return_attention_scores)

    def _check_call(self, inputs, mask, attention_mask):
        _check_rank(inputs.shape)
        check_shape_of_mask("mask", mask, inputs.shape[:2], "(B, T)")
        self._check_masks(inputs.shape, inputs.shape, attention_mask)


def _check_rank(shape):
    if len(shape) != 3:
        raise ValueError(
            f"SelfAttention takes one tensor of rank 3, (B, T, D). Received {tuple(shape)}. "
            f"Add the missing axis, or use MultiHeadAttention for a query and a value."
        )

"""`MultiHeadAttention`: several attentions side by side, each in a space of its own."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.layers.attention_heads import AttentionHeads
from keras_attention.layers.attention_layer import PreparedKeys
from keras_attention.layers.checks import check_shapes
from keras_attention.scores.base import positive_int

__all__ = ["MultiHeadAttention"]


@keras.saving.register_keras_serializable("keras_attention")
class MultiHeadAttention(AttentionHeads):
    """Several attentions side by side, each over queries, keys and values projected into a space of its own.

    Vaswani et al., 2017 (arXiv 1706.03762), section 3.2.2: `MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O`, where
    `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`; with the default score, attention is that of equation 1.
    Differs from the paper: `use_bias` adds a bias to each projection, as in Keras; any score and alignment will do.

    Called as `keras.layers.MultiHeadAttention`, and with its weights: `set_weights` takes those of such a layer. What
    sees nothing is 0 here, however, where Keras gives the bias or a mean over padding.

    Each head scores with weights of its own, where the score has some: a name or a layer is the pattern of all heads.
    A `prepare_key` of a score of the user's own must treat each position alone, if `extend` is to be used.

    For decoders, `prepare` and `attend`: see `AttentionLayer`. For those that attend to their own past, a cache:

        cache = layer.empty_cache(batch_size, max_length)
        cache = layer.extend(cache, value)                                  # one position, (B, Dv)
        output, weights, _ = layer.attend(query, cache)

    Args:
        num_heads: int > 0. H.
        key_dim: int > 0. Width of a head's queries and keys.
        value_dim: int > 0. Width of a head's values; `key_dim` by default.
        dropout: float in [0, 1). Share of weights dropped in training.
        use_bias: bool. Whether the projections have a bias.
        output_shape: int or tuple of ints. The output's axes after (B, Tq); (Dq,) by default.
        score: str ("scaled_dot", "dot", "general", "cosine", "additive", "concat", "mlp") or an unbuilt `Score`.
        units: int > 0. Width of the hidden layer, for scores that have one.
        alignment: str ("softmax", "sparsemax", "entmax15", "argmax") or function of score (B, H, Tq, Tv) and mask
            (broadcastable to it, or None) → weights.
        seed: int. Seed of the dropout.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer,
            kernel_constraint, bias_constraint: of the projections, as in Keras.

    Call arguments:
        query: float (B, Tq, Dq).
        value: float (B, Tv, Dv).
        key: float (B, Tv, Dk); defaults to `value`.
        query_mask: bool (B, Tq), value_mask and key_mask: bool (B, Tv), True = keep; by default those that Keras
            propagates.
        attention_mask: bool (B, Tq, Tv), or (B, H, Tq, Tv), a mask for each head. True = keep.
        return_attention_scores: bool. Also return the weights.
        training: bool. Applies dropout.
        use_causal_mask: bool. Query t sees values 0 … t only.

    Returns:
        `output` (B, Tq, Dout); with `return_attention_scores`, also `weights` (B, H, Tq, Tv), before dropout. Masked
        weights are exactly 0; a row with nothing to keep, or whose query is masked, is all 0, and so is its output.

    Raises:
        ValueError: `num_heads`, `key_dim` or `value_dim` < 1, a score per channel, with a memory, or with weights
            already, a wrong rank, or lengths or batches that differ.
        TypeError: a mask that is not bool.

    Example:
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=8, score="additive", units=16)
    >>> query, value = keras.random.normal((2, 3, 32)), keras.random.normal((2, 5, 24))
    >>> output, weights = layer(query, value, return_attention_scores=True)
    >>> output.shape, weights.shape
    (TensorShape([2, 3, 32]), TensorShape([2, 4, 3, 5]))
    """

    def __init__(self, num_heads, key_dim, value_dim=None, dropout=0.0, use_bias=True, output_shape=None, **kwargs):
        key_dim = positive_int("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else value_dim
        super().__init__(num_heads, key_dim, value_dim, dropout, use_bias, output_shape, **kwargs)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        self.build_heads(query_shape, value_shape, key_shape, self.key_dim, self.value_dim)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        key = value if key is None else key
        self._check_call(query, value, key, query_mask, value_mask, key_mask, attention_mask)
        if key_mask is not None:
            value_mask = key_mask if value_mask is None else ops.logical_and(value_mask, key_mask)
        mask = self.pair_mask(query, value, query_mask, value_mask, attention_mask, use_causal_mask)
        prepared = PreparedKeys(*self.project(value, key), None)
        output, weights = self.look(query, prepared, mask, training, return_attention_scores)
        return (output, weights) if return_attention_scores else output

    def initial_state(self, prepared):
        """What the first `attend` gets as `state`: nothing, for the past is in the cache where there is one."""
        return ()

    def attend(self, query, prepared, state=(), training=None):
        """One step of a decoder.

        Args:
            query: float (B, Dq).
            prepared: what `prepare` returned, or a cache.
            state: what `initial_state` or the previous `attend` returned.
            training: bool. Applies dropout.

        Returns:
            output (B, Dout), weights (B, H, Tv), state.
        """
        mask = ops.expand_dims(prepared.mask, (1, 2))
        return *self.step(query, prepared, mask, training), state

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return self.shape_of_output(query_shape)

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        key = value if key is None else key
        self._check_call(query, value, key, query_mask, value_mask, key_mask, attention_mask)
        return self.spec_of(query.shape, value.shape, return_attention_scores)

    def _check_call(self, query, value, key, query_mask, value_mask, key_mask, attention_mask):
        check_shapes(query.shape, value.shape, key.shape)
        masks = {"query_mask": query_mask, "value_mask": value_mask, "key_mask": key_mask}
        self._check_masks(query.shape, value.shape, attention_mask, **masks)

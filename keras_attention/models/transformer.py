"""The Transformer's encoder and decoder, of the library's own attention layers."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from keras_attention.layers import MultiHeadAttention
from keras_attention.models.decoder_map import DecoderMap

__all__ = ["TransformerDecoder", "TransformerEncoder", "sinusoids"]


def sinusoids(places, width):
    """`sin(p / 10000^(2i/d))` in the even channels, `cos` of the same in the odd ones (Vaswani et al., 2017, section
    3.5).

    Args:
        places: int32 (…).
        width: int, d, even.

    Returns:
        float32 (…, d).
    """
    rates = 10000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)
    angles = tf.cast(places, tf.float32)[..., None] * rates
    return tf.reshape(tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1), [*_sizes(places), width])


def _sizes(tensor):
    shape = tf.shape(tensor)
    return [size if size is not None else shape[axis] for axis, size in enumerate(tensor.shape)]


class _Block(keras.layers.Layer):
    """One layer: attention to itself, attention to the memory in a decoder, feed-forward; each behind its own
    normalisation and beside a residual connection.

    Args:
        settings: a `TransformerConfig`.
        has_memory: bool.
    """

    def __init__(self, settings, has_memory, **kwargs):
        super().__init__(**kwargs)
        policy, width = self.dtype_policy, settings.embedding_dim
        self.supports_masking = True
        self.width, self.has_memory = width, has_memory
        self.self_attention = self._attention(settings, "self_attention")
        self.self_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name="self_norm")
        if has_memory:
            self.cross_attention = self._attention(settings, "cross_attention")
            self.cross_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name="cross_norm")
        self.widen = keras.layers.Dense(settings.feed_forward_units, "relu", dtype=policy, name="widen")
        self.narrow = keras.layers.Dense(width, dtype=policy, name="narrow")
        self.feed_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name="feed_norm")
        self.dropout = keras.layers.Dropout(settings.dropout, dtype=policy, name="dropout")

    def _attention(self, settings, name):
        return MultiHeadAttention(
            settings.num_heads,
            settings.embedding_dim // settings.num_heads,
            dropout=settings.attention_dropout,
            score=settings.score,
            units=settings.score_units,
            alignment=settings.alignment,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape):
        shape = (None, None, self.width)
        self.self_attention.build(shape, shape)
        self.self_norm.build(shape)
        if self.has_memory:
            self.cross_attention.build(shape, shape)
            self.cross_norm.build(shape)
        self.widen.build(shape)
        self.narrow.build((None, None, self.widen.units))
        self.feed_norm.build(shape)
        self.built = True

    def call(self, inputs, mask=None, memory=None, use_causal_mask=False, training=None):
        """inputs (B, T, D), mask bool (B, T) of them as keys, memory `PreparedKeys` → (B, T, D)."""
        own = self.self_norm(inputs)
        own = self.self_attention(own, own, value_mask=mask, use_causal_mask=use_causal_mask, training=training)
        outputs = inputs + self.dropout(own, training=training)
        if self.has_memory:
            pairs = ops.expand_dims(memory.mask, (1, 2))
            read, _ = self.cross_attention.look(self.cross_norm(outputs), memory, pairs, training)
            outputs = outputs + self.dropout(read, training=training)
        return outputs + self.dropout(self.feed_forward(outputs), training=training)

    def feed_forward(self, inputs):
        return self.narrow(self.widen(self.feed_norm(inputs)))

    def step(self, inputs, memory, cache):
        """One position of a decoder: inputs (B, D) → outputs (B, D), weights over the memory (B, H, Tv), cache."""
        own = self.self_norm(inputs)
        cache = self.self_attention.extend(cache, own)
        outputs = inputs + self.self_attention.attend(own, cache)[0]
        read, weights, _ = self.cross_attention.attend(self.cross_norm(outputs), memory)
        outputs = outputs + read
        return outputs + self.feed_forward(outputs), weights, cache


class _Stack(keras.layers.Layer):
    """Blocks, one on top of the other, and a last normalisation."""

    def __init__(self, settings, has_memory, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.width, self.max_length = settings.embedding_dim, settings.max_length
        self.blocks = [
            _Block(settings, has_memory, dtype=self.dtype_policy, name=f"layer_{number}")
            for number in range(settings.num_layers)
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        for block in self.blocks:
            block.build(input_shape)
        self.norm.build((None, None, self.width))
        self.built = True

    def placed(self, embedded):
        """Embedded tokens (B, T, D) with their positions."""
        return embedded + ops.cast(sinusoids(tf.range(tf.shape(embedded)[1]), self.width), embedded.dtype)


class TransformerEncoder(_Stack):
    """The encoder of Vaswani et al., 2017 (arXiv 1706.03762), section 3.1.

    Differs from the paper: each normalisation stands before its sublayer, and one more at the end (Xiong et al., 2020,
    arXiv 2002.04745), which trains without a long warm-up.

    Args:
        settings: a `TransformerConfig`.
    """

    def __init__(self, settings, **kwargs):
        super().__init__(settings, has_memory=False, **kwargs)

    def call(self, inputs, mask=None, training=None):
        """Embedded tokens (B, Tv, D), mask bool (B, Tv) → states (B, Tv, D)."""
        outputs = self.placed(inputs)
        for block in self.blocks:
            outputs = block(outputs, mask=mask, training=training)
        return self.norm(outputs)


class TransformerDecoder(_Stack):
    """The decoder of Vaswani et al., 2017, section 3.1, normalised as `TransformerEncoder`.

    A step finds the keys and values of the steps before it in its state, so that it computes one position only.

    Args:
        settings: a `TransformerConfig`.
    """

    def __init__(self, settings, **kwargs):
        super().__init__(settings, has_memory=True, **kwargs)
        self.maps = tuple(
            DecoderMap(f"decoder_{number}", f"decoder/layer_{number}/cross_attention", settings.num_heads)
            for number in range(settings.num_layers)
        )

    def prepare(self, values, mask):
        """For each layer the `PreparedKeys` of the encoder's states."""
        return [block.cross_attention.prepare(values, mask=mask) for block in self.blocks]

    def initial_state(self, states, memory):
        """Empty caches, and the place of the next token."""
        batch = ops.shape(memory[0].mask)[0]
        caches = [block.self_attention.empty_cache(batch, self.max_length) for block in self.blocks]
        return {"caches": caches, "place": ops.zeros((batch,), "int32")}

    def project(self, embedded):
        return embedded

    def stepper(self, memory, dtype, masks=None, training=None):
        """A function (embedded (B, D), state) → output (B, D), weights (B, layers · heads · Tv), state."""

        def step(embedded, state):
            outputs = embedded + ops.cast(sinusoids(state["place"], self.width), embedded.dtype)
            found, caches = [], []
            for block, prepared, cache in zip(self.blocks, memory, state["caches"], strict=True):
                outputs, weights, cache = block.step(outputs, prepared, cache)
                found.append(weights)
                caches.append(cache)
            weights = tf.concat(found, axis=1)  # (B, layers · heads, Tv)
            weights = tf.reshape(weights, [tf.shape(weights)[0], -1])
            return self.norm(outputs), weights, {"caches": caches, "place": state["place"] + 1}

        return step

    def call(self, embedded, states, memory, training=None):
        """Teacher-forced: embedded (B, Tq, D) → output (B, Tq, D)."""
        outputs = self.placed(embedded)
        for block, prepared in zip(self.blocks, memory, strict=True):
            outputs = block(outputs, memory=prepared, use_causal_mask=True, training=training)
        return self.norm(outputs)

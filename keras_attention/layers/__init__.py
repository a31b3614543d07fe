"""Attention layers. Importing this module makes saved models that hold them loadable."""

from __future__ import annotations

from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys, SoftAttention
from keras_attention.layers.bahdanau_attention import BahdanauAttention
from keras_attention.layers.luong_attention import LuongAttention

__all__ = ["AttentionLayer", "BahdanauAttention", "LuongAttention", "PreparedKeys", "SoftAttention"]

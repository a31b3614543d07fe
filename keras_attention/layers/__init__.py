"""Attention layers. Importing this module makes saved models that hold them loadable."""

from __future__ import annotations

from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys
from keras_attention.layers.bahdanau_attention import BahdanauAttention
from keras_attention.layers.coverage_attention import CoverageAttention, coverage_loss
from keras_attention.layers.hard_attention import HardAttention
from keras_attention.layers.local_attention import LocalAttention
from keras_attention.layers.location_attention import LocationAttention
from keras_attention.layers.luong_attention import LuongAttention
from keras_attention.layers.moving_baseline import MovingBaseline, reinforce_loss
from keras_attention.layers.multi_dim_attention import MultiDimAttention
from keras_attention.layers.orthogonality_regularizer import OrthogonalityRegularizer
from keras_attention.layers.soft_attention import SoftAttention
from keras_attention.layers.structured_attention import StructuredAttention

__all__ = [
    "AttentionLayer",
    "BahdanauAttention",
    "CoverageAttention",
    "HardAttention",
    "LocalAttention",
    "LocationAttention",
    "LuongAttention",
    "MovingBaseline",
    "MultiDimAttention",
    "OrthogonalityRegularizer",
    "PreparedKeys",
    "SoftAttention",
    "StructuredAttention",
    "coverage_loss",
    "reinforce_loss",
]

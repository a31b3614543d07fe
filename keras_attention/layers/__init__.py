"""Attention layers. Importing this module makes saved models that hold them loadable."""

from __future__ import annotations

from keras_attention.layers.attention_layer import AttentionLayer, PreparedKeys
from keras_attention.layers.attention_over_attention import AttentionOverAttention, sum_attention
from keras_attention.layers.attention_rnn import AttentionRNN
from keras_attention.layers.attentive_pooling import AttentivePooling
from keras_attention.layers.bahdanau_attention import BahdanauAttention
from keras_attention.layers.bahdanau_cell import BahdanauCell
from keras_attention.layers.coverage_attention import CoverageAttention, coverage_loss
from keras_attention.layers.crf import ConditionalRandomField
from keras_attention.layers.gated_pooling import GatedPooling
from keras_attention.layers.hard_attention import Draws, HardAttention
from keras_attention.layers.hierarchical_attention import HierarchicalAttention
from keras_attention.layers.key_value_cache import KeyValueCache
from keras_attention.layers.local_attention import LocalAttention
from keras_attention.layers.location_attention import LocationAttention
from keras_attention.layers.luong_attention import LuongAttention
from keras_attention.layers.luong_cell import LuongCell
from keras_attention.layers.max_pooling import MaxPooling
from keras_attention.layers.mean_pooling import MeanPooling
from keras_attention.layers.memory_attention import MemoryAttention
from keras_attention.layers.monotonic_attention import MonotonicAttention
from keras_attention.layers.moving_baseline import MovingBaseline, reinforce_loss
from keras_attention.layers.multi_dim_attention import MultiDimAttention
from keras_attention.layers.multi_head_attention import MultiHeadAttention
from keras_attention.layers.orthogonality_regularizer import OrthogonalityRegularizer
from keras_attention.layers.self_attention import SelfAttention
from keras_attention.layers.sequence_pooling import SequencePooling
from keras_attention.layers.soft_attention import SoftAttention
from keras_attention.layers.structured_attention import StructuredAttention
from keras_attention.layers.tag_constraints import tag_constraints
from keras_attention.layers.temperature_schedule import ExponentialTemperature

__all__ = [
    "AttentionLayer",
    "AttentionOverAttention",
    "AttentionRNN",
    "AttentivePooling",
    "BahdanauAttention",
    "BahdanauCell",
    "ConditionalRandomField",
    "CoverageAttention",
    "Draws",
    "ExponentialTemperature",
    "GatedPooling",
    "HardAttention",
    "HierarchicalAttention",
    "KeyValueCache",
    "LocalAttention",
    "LocationAttention",
    "LuongAttention",
    "LuongCell",
    "MaxPooling",
    "MeanPooling",
    "MemoryAttention",
    "MonotonicAttention",
    "MovingBaseline",
    "MultiDimAttention",
    "MultiHeadAttention",
    "OrthogonalityRegularizer",
    "PreparedKeys",
    "SelfAttention",
    "SequencePooling",
    "SoftAttention",
    "StructuredAttention",
    "coverage_loss",
    "reinforce_loss",
    "sum_attention",
    "tag_constraints",
]

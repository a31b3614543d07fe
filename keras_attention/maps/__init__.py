"""Attention maps: weights with labels on both sides, and the ways to look at them.

This package knows arrays, labels and images only; it imports nothing else of the library.
"""

from __future__ import annotations

from keras_attention.maps.attention_map import AttentionMap
from keras_attention.maps.document_map import DocumentMap
from keras_attention.maps.fonts import MissingGlyphWarning

__all__ = ["AttentionMap", "DocumentMap", "MissingGlyphWarning"]

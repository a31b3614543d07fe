"""`DecoderMap`: which attention weights a decoder reports."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DecoderMap"]


class DecoderMap(NamedTuple):
    """One mechanism whose weights a decoder reports at each step.

    Attributes:
        name, layer: of the `AttentionMap`.
        heads: int > 0.
    """

    name: str
    layer: str
    heads: int = 1

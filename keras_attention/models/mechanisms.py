"""The attention layers that a decoder can be configured with, by name."""

from __future__ import annotations

from keras_attention import layers

__all__ = ["MECHANISMS", "make_attention"]

# name → the layer, and which of the settings `score` and `score_units` it takes
MECHANISMS = {
    "luong": ("LuongAttention", ("score", "units")),
    "bahdanau": ("BahdanauAttention", ("units",)),
    "local": ("LocalAttention", ("score", "units")),
    "hard": ("HardAttention", ("score", "units")),
    "location": ("LocationAttention", ()),
    "coverage": ("CoverageAttention", ("units",)),
    "monotonic": ("MonotonicAttention", ("score", "units")),
    "multi_dim": ("MultiDimAttention", ("units",)),
}


def make_attention(name, score, units, options, dtype):
    """The attention layer of a name in `MECHANISMS`.

    Args:
        name: str.
        score, units: what the score is, and the width of its hidden layer; taken by the layers that have them.
        options: dict of the layer's further arguments, JSON types.
        dtype: dtype or policy.

    Raises:
        ValueError: an option that the layer does not have, or a value that it refuses.
    """
    kind, takes = MECHANISMS[name]
    given = {key: value for key, value in (("score", score), ("units", units)) if key in takes}
    try:
        return getattr(layers, kind)(**given, **options, dtype=dtype, name="attention")
    except TypeError as error:
        raise ValueError(f"`attention_options` {options!r} do not fit {kind}: {error}.") from error

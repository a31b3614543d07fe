"""Scores: how well each key answers a query, `e = score(q, k)`.

Each score comes as a plain function of tensors and as a layer that holds its weights, where it has any. A layer splits
its work in two, so that a decoder pays for the keys once: `prepare_key(key)` does what depends on the keys alone,
`score(query, prepared_key)` the rest.
"""

from __future__ import annotations

import difflib

from keras_attention.scores.base import Score
from keras_attention.scores.channels import (
    ChannelAdditiveScore,
    ChannelBilinearScore,
    ChannelScore,
    channel_additive,
    channel_bilinear,
)
from keras_attention.scores.location_aware import LocationAwareScore, location_aware
from keras_attention.scores.multiplicative import (
    CosineScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    cosine,
    dot,
    general,
    scaled_dot,
)
from keras_attention.scores.perceptron import AdditiveScore, MLPScore, additive, mlp

__all__ = [
    "AdditiveScore",
    "ChannelAdditiveScore",
    "ChannelBilinearScore",
    "ChannelScore",
    "CosineScore",
    "DotScore",
    "GeneralScore",
    "LocationAwareScore",
    "MLPScore",
    "ScaledDotScore",
    "Score",
    "additive",
    "channel_additive",
    "channel_bilinear",
    "cosine",
    "dot",
    "general",
    "get",
    "location_aware",
    "mlp",
    "scaled_dot",
]

_BY_NAME = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "general": GeneralScore,
    "cosine": CosineScore,
    "additive": AdditiveScore,
    "concat": AdditiveScore,
    "mlp": MLPScore,
    "location_aware": LocationAwareScore,
    "channel_additive": ChannelAdditiveScore,
    "channel_bilinear": ChannelBilinearScore,
}
_WITH_UNITS = (AdditiveScore, MLPScore, LocationAwareScore, ChannelAdditiveScore)


def get(score, *, units=None, channels=None, dtype=None, **options) -> Score:
    """A score layer, from its name or as it is given.

    The names: "dot", "scaled_dot", "general", "cosine", "additive" (or "concat"), "mlp"; "location_aware", which sees
    the weights before; and with one score a channel "channel_additive" and "channel_bilinear".

    Args:
        score: str or `Score`.
        units: int. Width of the hidden layer, for the scores that have one.
        channels: int. Number of channels, for the scores that have some.
        dtype: dtype or policy of the layer.
        options: further arguments of that score.

    Raises:
        ValueError: the name is unknown, or `units` or `channels` is missing where the score needs it, or given where
            it has none.
        TypeError: `score` is neither a name nor a `Score`.
    """
    if isinstance(score, Score):
        if units is not None:
            raise ValueError(f"A score that is a layer has its own width. Received units={units!r}. Leave it out.")
        return score
    if not isinstance(score, str):
        raise TypeError(f"`score` must be a name or a keras_attention.scores.Score. Received {score!r}.")
    if score not in _BY_NAME:
        near = difflib.get_close_matches(score, _BY_NAME, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown score {score!r}. Expected one of {', '.join(sorted(_BY_NAME))}.{hint}")
    kind = _BY_NAME[score]
    if kind in _WITH_UNITS:
        if units is None:
            raise ValueError(f"The score {score!r} has a hidden layer: give its width as `units`, an int > 0.")
        options["units"] = units
    elif units is not None:
        raise ValueError(
            f"The score {score!r} has no hidden layer, so no `units`. Received units={units!r}. Leave it out."
        )
    if issubclass(kind, ChannelScore):
        if channels is None:
            raise ValueError(
                f"The score {score!r} gives one score a channel: give their number as `channels`, an int > 0. "
                f"A layer with one score a pair of query and key takes another; MultiDimAttention takes this one."
            )
        options["channels"] = channels
    elif channels is not None:
        raise ValueError(f"The score {score!r} has no channels. Received channels={channels!r}. Leave it out.")
    return kind(name=score, dtype=dtype, **options)

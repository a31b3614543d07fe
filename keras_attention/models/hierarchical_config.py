"""Settings of the family `hierarchical_classification`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig

__all__ = ["HierarchicalConfig"]

ENCODERS = ("gru", "lstm", "none")
POOLINGS = ("attentive", "mean", "max")


@dataclasses.dataclass(frozen=True)
class HierarchicalConfig(LabelConfig):
    """Settings of a `HierarchicalModel`; see `LabelConfig` for those that all such families share.

    Attributes:
        encoder: of words and of sentences: "gru" or "lstm", in both directions, or "none".
        units: width of the states of both encoders, both directions together.
        pooling: of words and of sentences: "attentive" (Yang et al., 2016), "mean" or "max".
        attention_units: width of the hidden layer of each attention.
        max_words: longest sentence; a longer one goes on as the next.
        max_length: longest document in words.
    """

    encoder: str = "gru"
    units: int = 100
    pooling: str = "attentive"
    attention_units: int = 64
    max_words: int = 50
    max_length: int = 1_000_000

    def __post_init__(self):
        super().__post_init__()
        for name, low in (("units", 2), ("attention_units", 1), ("max_words", 1)):
            self.check_int(name, low)
        self.check_choice("encoder", ENCODERS)
        self.check_choice("pooling", POOLINGS)
        if self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")

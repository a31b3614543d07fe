"""Settings of the family `classification`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig
from keras_attention.models.text_encoder import ENCODERS

__all__ = ["POOLINGS", "ClassificationConfig"]

POOLINGS = ("structured", "multi_dim", "attentive", "max", "mean")


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(LabelConfig):
    """Settings of a `ClassificationModel`; see `LabelConfig` for those that all such families share.

    Attributes:
        encoder: "lstm" or "gru", in both directions; "directional": self-attention of Shen et al., 2018; "none".
        units: width of the encoder's states, both directions together.
        num_layers: recurrent layers.
        pooling: how the states become a vector: "structured" (`rows` of attention, Lin et al., 2017), "multi_dim" (a
            score for each channel, Shen et al., 2018), "attentive" (one row), "max" or "mean".
        attention_units: width of the hidden layer of the attention.
        rows: of "structured".
        penalty: of "structured": how much ‖AAᵀ − I‖²_F counts in the loss.
        hidden_units: width of a layer between the vector and the labels; 0 for none.
    """

    encoder: str = "lstm"
    units: int = 100
    num_layers: int = 1
    pooling: str = "structured"
    attention_units: int = 64
    rows: int = 4
    penalty: float = 0.0
    hidden_units: int = 0

    def __post_init__(self):
        super().__post_init__()
        for name, low in (("units", 2), ("num_layers", 1), ("attention_units", 1), ("rows", 1), ("hidden_units", 0)):
            self.check_int(name, low)
        self.check_choice("encoder", ENCODERS)
        self.check_choice("pooling", POOLINGS)
        if self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")
        if self.penalty != 0:
            self.check_positive("penalty", self.penalty)
            if self.pooling != "structured":
                raise ValueError(
                    f"`penalty` keeps the rows of the pooling 'structured' apart; {self.pooling!r} has none. Leave it "
                    "out, or choose that pooling."
                )

"""Settings of the family `entailment`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig

__all__ = ["METHODS", "EntailmentConfig"]

METHODS = ("decomposable", "word_by_word", "bag")


@dataclasses.dataclass(frozen=True)
class EntailmentConfig(LabelConfig):
    """Settings of an `EntailmentModel`; see `LabelConfig` for those that all such families share.

    Attributes:
        method: how two sentences become a vector: "decomposable" (Parikh et al., 2016), "word_by_word" (Rocktäschel et
            al., 2016) or "bag", the means of their words, without attention, to compare with.
        units: width of the projected words, and of every layer behind them.
        interaction: of "decomposable": whether a word and what it is aligned with are compared by their difference and
            their product too.
    """

    method: str = "decomposable"
    units: int = 100
    interaction: bool = False

    def __post_init__(self):
        super().__post_init__()
        self.check_int("units", 1)
        self.check_choice("method", METHODS)
        self.check_bool("interaction")
        if self.interaction and self.method != "decomposable":
            raise ValueError(
                f"`interaction` is of the method 'decomposable'; {self.method!r} compares no words. Leave it out, or "
                "choose that method."
            )

"""Settings of the family `relation`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig
from keras_attention.text.entity_marks import MARKS

__all__ = ["DIRECTIONS", "ENCODERS", "LOSSES", "RelationConfig"]

ENCODERS = ("lstm", "self_attention")
DIRECTIONS = ("sum", "concat")
LOSSES = ("cross_entropy", "ranking")


@dataclasses.dataclass(frozen=True)
class RelationConfig(LabelConfig):
    """Settings of a `RelationModel`; see `LabelConfig` for those that all such families share.

    Attributes:
        encoder: "lstm", in both directions (Zhou et al., 2016), or "self_attention".
        units: width of the encoder's states.
        num_layers: of the encoder.
        directions: of "lstm": whether the states of both directions are added, as Zhou et al. do, or stand side by
            side, half of the width each.
        num_heads: of "self_attention".
        position_dim: width of what tells each word its distance to an entity, for each of the two; 0 for none.
        position_range: words; distances beyond count as this one.
        entities: whether the label also sees, beside what attention read, the mean of the words of each entity, as they
            are embedded and as states.
        word_dropout: share of words that are unknown in training; marks never are.
        encoder_dropout: share dropped of the encoder's states.
        loss: "cross_entropy", or "ranking", of the scores themselves (see `losses.ranking_loss`).
        no_relation: the label that says that none of the others holds, such as "Other", which may be many things: it
            learns no score, its logit is 0, and it is chosen where no other has a score above 0. "" for none.
    """

    encoder: str = "lstm"
    units: int = 100
    num_layers: int = 1
    directions: str = "sum"
    num_heads: int = 4
    position_dim: int = 0
    position_range: int = 30
    entities: bool = False
    word_dropout: float = 0.0
    encoder_dropout: float = 0.0
    loss: str = "cross_entropy"
    no_relation: str = ""

    def __post_init__(self):
        super().__post_init__()
        for name, low in (
            ("vocabulary_size", 5 + len(MARKS)),
            ("units", 2),
            ("num_layers", 1),
            ("num_heads", 1),
            ("position_dim", 0),
            ("position_range", 1),
        ):
            self.check_int(name, low)
        for name in ("word_dropout", "encoder_dropout"):
            self.check_share(name)
        self.check_choice("encoder", ENCODERS)
        self.check_choice("directions", DIRECTIONS)
        self.check_choice("loss", LOSSES)
        self.check_bool("entities")
        if self.no_relation and (self.no_relation not in self.labels or len(self.labels) < 3):
            raise ValueError(
                f'`no_relation` must be one of at least three labels, {", ".join(self.labels)[:200]}, or "". Received '
                f"{self.no_relation!r}."
            )
        if self.loss == "ranking" and (self.label_smoothing or len(self.labels) < 2):
            raise ValueError(
                f'The loss "ranking" wants two labels at least and no `label_smoothing`. Received {len(self.labels)} '
                f"and {self.label_smoothing}."
            )
        if self.encoder == "lstm" and self.directions == "concat" and self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")
        if self.encoder == "self_attention" and self.units % self.num_heads:
            raise ValueError(
                f"`units` must be a multiple of `num_heads`. Received {self.units} and {self.num_heads} heads."
            )

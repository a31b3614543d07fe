"""Settings of the family `cloze`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig
from keras_attention.models.model_config import ModelConfig

__all__ = ["ATTENTIONS", "ClozeConfig"]

ATTENTIONS = ("over_attention", "sum")


@dataclasses.dataclass(frozen=True)
class ClozeConfig(ModelConfig):
    """Settings of a `ClozeModel`.

    Attributes:
        vocabulary_size: words of the tokenizer.
        unknown_rows: embeddings that words out of the vocabulary share.
        embedding_dim: width of the word embeddings.
        embeddings: "trained", or "frozen", which stay as they start (see `set_word_vectors`).
        cell: "gru" or "lstm".
        units: width of the states of document and query, both directions together.
        attention: "over_attention" (Cui et al., 2017), or "sum" (Kadlec et al., 2016), one attention of the whole
            query.
        embedding_dropout: share dropped of the embeddings.
        dropout: share dropped of the states.
        temperature: what logarithms of probabilities are divided by, so that probabilities can be trusted; chosen on
            validation examples.
        max_length: longest document, and longest query, in words.
    """

    vocabulary_size: int
    unknown_rows: int = 10
    embedding_dim: int = 50
    embeddings: str = "trained"
    cell: str = "gru"
    units: int = 128
    attention: str = "over_attention"
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    temperature: float = 1.0
    max_length: int = 1200

    def __post_init__(self):
        for name, low in (
            ("vocabulary_size", 5), ("unknown_rows", 1), ("embedding_dim", 1), ("units", 2), ("max_length", 1),
        ):  # fmt: skip
            self.check_int(name, low)
        for name in ("embedding_dropout", "dropout"):
            self.check_share(name)
        LabelConfig.check_positive("temperature", self.temperature)
        self.check_choice("embeddings", ("trained", "frozen"))
        self.check_choice("cell", ("gru", "lstm"))
        self.check_choice("attention", ATTENTIONS)
        if self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")

    @property
    def least_parameters(self) -> int:
        return self.vocabulary_size * self.embedding_dim

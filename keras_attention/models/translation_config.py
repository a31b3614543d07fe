"""Settings of the family `translation`, and the checks of its search options."""

from __future__ import annotations

import dataclasses
import math

from keras_attention import scores
from keras_attention.models.attention_decoder import FEEDS
from keras_attention.models.model_config import ModelConfig
from keras_attention.models.recurrent_cells import CELLS

__all__ = ["TranslationConfig", "check_range", "check_search_options"]


@dataclasses.dataclass(frozen=True)
class TranslationConfig(ModelConfig):
    """Settings of a `TranslationModel`.

    Attributes:
        vocabulary_size: pieces of the tokenizer, which both languages share.
        embedding_dim: width of the embeddings.
        units: width of the states of encoder (both directions together) and decoder.
        cell: "gru" or "lstm".
        num_layers: layers of the encoder and of the decoder each; the states are handed over layer by layer.
        bidirectional: whether the encoder reads in both directions.
        score: score of the attention, by name (see `keras_attention.scores.get`).
        score_units: width of the score's hidden layer, for "concat" and "additive".
        feed: what the decoder's next step gets besides the last token: "nothing", "context" or "attentional" (input
            feeding).
        tie_embeddings: "none"; "output": the decoder's embeddings are its output matrix; "all": and the encoder's
            embeddings too.
        embedding_dropout: share dropped of the embeddings.
        dropout: share dropped between layers and of the attentional vector h̃.
        label_smoothing: ε of the training loss.
        max_length: longest input and output in pieces, the end included.
        beam_size, length_penalty: of the search, where the caller names none.
    """

    vocabulary_size: int
    embedding_dim: int
    units: int
    cell: str = "gru"
    num_layers: int = 1
    bidirectional: bool = True
    score: str = "general"
    score_units: int | None = None
    feed: str = "attentional"
    tie_embeddings: str = "all"
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    max_length: int = 64
    beam_size: int = 4
    length_penalty: float = 1.0

    def __post_init__(self):
        for name, low in (
            ("vocabulary_size", 5),
            ("embedding_dim", 1),
            ("units", 1),
            ("num_layers", 1),
            ("max_length", 2),
        ):
            self.check_int(name, low)
        self.check_int("beam_size", 1)
        for name in ("embedding_dropout", "dropout", "label_smoothing"):
            self.check_share(name)
        self.check_bool("bidirectional")
        self.check_choice("cell", tuple(CELLS))
        self.check_choice("feed", FEEDS)
        self.check_choice("tie_embeddings", ("none", "output", "all"))
        if self.bidirectional and self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")
        check_length_penalty(self.length_penalty)
        scores.get(self.score, units=self.score_units)

    @property
    def least_parameters(self) -> int:
        """A number of weights that no model of these settings gets below."""
        return self.vocabulary_size * self.embedding_dim + self.num_layers * self.units**2


def check_search_options(beam_size, length_penalty, max_length, vocabulary_size):
    check_range("beam_size", beam_size, 1, vocabulary_size // 2)
    check_range("max_length", max_length, 1, 10_000)
    check_length_penalty(length_penalty)


def check_range(name, value, low, high):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"`{name}` must be an int from {low} to {high}. Received {value!r}.")


def check_length_penalty(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"`length_penalty` must be a number >= 0. Received {value!r}.")

"""Settings of the family `transformer_translation`."""

from __future__ import annotations

import dataclasses

from keras_attention import alignments, scores
from keras_attention.models.embeddings import check_embeddings
from keras_attention.models.model_config import ModelConfig
from keras_attention.models.search_options import check_number

__all__ = ["TransformerConfig"]


@dataclasses.dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Settings of a `TransformerTranslationModel`.

    Attributes:
        vocabulary_size: pieces of the tokenizer, which both languages share.
        embedding_dim: width of the embeddings and of every layer; a multiple of `num_heads`, even.
        feed_forward_units: width inside the feed-forward layers.
        num_heads: heads of each attention.
        num_layers: layers of the encoder and of the decoder each.
        score, score_units, alignment: of every attention, by name.
        tie_embeddings: "none"; "output": the decoder's embeddings are its output matrix; "all": and the encoder's
            embeddings too.
        source_embeddings, target_embeddings: "trained", or "frozen", which stay as they start (see `set_word_vectors`).
        embedding_dropout: share dropped of the embeddings.
        dropout: share dropped of what each sublayer gives.
        attention_dropout: share of weights dropped.
        label_smoothing: ε of the training loss.
        max_length: longest input and output in pieces, the end included.
        beam_size, length_penalty: of the search, where the caller names none.
    """

    vocabulary_size: int
    embedding_dim: int
    feed_forward_units: int
    num_heads: int
    num_layers: int
    score: str = "scaled_dot"
    score_units: int | None = None
    alignment: str = "softmax"
    tie_embeddings: str = "all"
    source_embeddings: str = "trained"
    target_embeddings: str = "trained"
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    label_smoothing: float = 0.0
    max_length: int = 64
    beam_size: int = 4
    length_penalty: float = 1.0

    def __post_init__(self):
        for name, low in (
            ("vocabulary_size", 5),
            ("embedding_dim", 2),
            ("feed_forward_units", 1),
            ("num_heads", 1),
            ("num_layers", 1),
            ("max_length", 2),
            ("beam_size", 1),
        ):
            self.check_int(name, low)
        for name in ("embedding_dropout", "dropout", "attention_dropout", "label_smoothing"):
            self.check_share(name)
        self.check_choice("tie_embeddings", ("none", "output", "all"))
        self.check_choice("source_embeddings", ("trained", "frozen"))
        self.check_choice("target_embeddings", ("trained", "frozen"))
        check_embeddings(self)
        if self.embedding_dim % self.num_heads or self.embedding_dim % 2:
            raise ValueError(
                f"`embedding_dim` must be even and a multiple of num_heads={self.num_heads}. "
                f"Received {self.embedding_dim}."
            )
        check_number("length_penalty", self.length_penalty, 0)
        scores.get(self.score, units=self.score_units)
        alignments.get(self.alignment)

    @classmethod
    def from_dict(cls, values):
        if "scheduled_sampling" in values:
            raise ValueError(
                "`scheduled_sampling` feeds a decoder what it wrote itself, step by step; a Transformer is trained on "
                "all steps at once. Leave it out, or choose the family `translation`."
            )
        return super().from_dict(values)

    @property
    def units(self) -> int:
        """Width of what the decoder gives."""
        return self.embedding_dim

    @property
    def least_parameters(self) -> int:
        """A number of weights that no model of these settings gets below."""
        layer = 4 * self.embedding_dim**2 + 2 * self.embedding_dim * self.feed_forward_units
        return self.vocabulary_size * self.embedding_dim + 2 * self.num_layers * layer

"""Settings of the family `tagging`."""

from __future__ import annotations

import dataclasses

from keras_attention.layers.tag_constraints import split_tag
from keras_attention.models.deep_attention import NONLINEAR
from keras_attention.models.model_config import ModelConfig

__all__ = ["ENCODERS", "TAG_SCHEMES", "TaggingConfig"]

ENCODERS = ("self_attention", "lstm")
TAG_SCHEMES = ("none", "bio", "srl")


@dataclasses.dataclass(frozen=True)
class TaggingConfig(ModelConfig):
    """Settings of a `TaggingModel`.

    Attributes:
        vocabulary_size: words of the tokenizer.
        labels: the names of the tags; a training learns them from its examples.
        scheme: "none": each word has a tag by itself, such as its part of speech; "bio": tags are spans, B-X I-X …, or
            O; "srl": they are the spans of the semantic roles of one predicate, which is given.
        encoder: "self_attention", see `DeepAttention`, or "lstm", in both directions.
        units: width of the states; of "lstm" both directions together.
        num_layers: layers of the encoder.
        num_heads: of "self_attention".
        nonlinear: of "self_attention": what each layer does before it attends, "feed_forward" or "recurrent".
        feed_forward_units: of "feed_forward".
        crf: whether tags are chosen by a conditional random field. Without, each word has a softmax of its own; where
            tags are spans, the most probable tags among those that are whole spans are chosen.
        embedding_dim: width of the word embeddings.
        embeddings: "trained", or "frozen", which stay as they start (see `WordModel.set_word_vectors`).
        affix_buckets, affix_dim: ids of prefixes and suffixes, and the width of their embeddings.
        shape_dim, predicate_dim: widths of the embeddings of a word's shape, and of whether it is the predicate.
        embedding_dropout, dropout, attention_dropout: shares dropped: of what the network reads; of what each sublayer
            adds, or between recurrent layers, and before the output layer; of the attention weights.
        label_smoothing: ε of the training loss; not with `crf`.
        max_length: longest input in words.
    """

    vocabulary_size: int
    labels: tuple[str, ...]
    scheme: str = "none"
    encoder: str = "self_attention"
    units: int = 128
    num_layers: int = 4
    num_heads: int = 8
    nonlinear: str = "feed_forward"
    feed_forward_units: int = 384
    crf: bool = False
    embedding_dim: int = 50
    embeddings: str = "trained"
    affix_buckets: int = 8192
    affix_dim: int = 12
    shape_dim: int = 12
    predicate_dim: int = 16
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    label_smoothing: float = 0.0
    max_length: int = 256

    def __post_init__(self):
        if not isinstance(self.labels, (list, tuple)):
            raise ValueError(f"`labels` must be a list. Received {self.labels!r}.")
        object.__setattr__(self, "labels", tuple(self.labels))
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError(f"`labels` must name at least one tag, each once. Received {list(self.labels)!r:.200}.")
        if any(not isinstance(one, str) or not one.strip() for one in self.labels):
            raise ValueError(f"`labels` must be text. Received {list(self.labels)!r:.200}.")
        sizes = ("num_layers", "num_heads", "feed_forward_units", "embedding_dim", "affix_buckets", "affix_dim")
        for name in (*sizes, "shape_dim", "predicate_dim", "max_length"):
            self.check_int(name, 1)
        for name, low in (("vocabulary_size", 5), ("units", 2)):
            self.check_int(name, low)
        for name in ("embedding_dropout", "dropout", "attention_dropout", "label_smoothing"):
            self.check_share(name)
        self.check_bool("crf")
        choices = {"scheme": TAG_SCHEMES, "encoder": ENCODERS, "nonlinear": NONLINEAR}
        for name, known in {**choices, "embeddings": ("trained", "frozen")}.items():
            self.check_choice(name, known)
        self._check_together()

    def _check_together(self):
        """What makes sense alone, but not with the rest."""
        if self.units % 2 or (self.encoder == "self_attention" and self.units % self.num_heads):
            raise ValueError(
                f"`units` must be even, and num_heads={self.num_heads} must divide it. Received {self.units}."
            )
        if self.crf and self.label_smoothing:
            raise ValueError(
                f"`label_smoothing` is of the softmax of each word, and `crf` has none. Received "
                f"{self.label_smoothing}; set it to 0."
            )
        if self.spans:
            for label in self.labels:
                split_tag(label, "BIO")
            kinds = {label[2:] for label in self.labels if label.startswith("I-")}
            alone = sorted(kinds - {label[2:] for label in self.labels if label.startswith("B-")})
            if alone:
                raise ValueError(f"`labels` has I-{alone[0]}, and no B-{alone[0]} to begin such a span. Add it.")

    @property
    def spans(self) -> bool:
        """Whether tags are spans in BIO."""
        return self.scheme != "none"

    @property
    def has_predicate(self) -> bool:
        return self.scheme == "srl"

    @property
    def least_parameters(self) -> int:
        return self.vocabulary_size * self.embedding_dim + self.affix_buckets * self.affix_dim

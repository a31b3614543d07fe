"""`LabelConfig`: the settings that all families share which give a label to what they read."""

from __future__ import annotations

import dataclasses
import math

from keras_attention.models.model_config import ModelConfig

__all__ = ["LabelConfig"]


@dataclasses.dataclass(frozen=True)
class LabelConfig(ModelConfig):
    """Base of the settings of a `LabelModel`.

    Attributes:
        vocabulary_size: words of the tokenizer.
        labels: their names; a training learns them from its examples.
        label_weights: how much an example of each label counts in the loss, 1 on the mean; () counts all alike;
            "balanced" in a recipe weighs each label by the inverse of its share.
        embedding_dim: width of the word embeddings.
        embeddings: "trained", or "frozen", which stay as they start (see `LabelModel.set_word_vectors`).
        embedding_dropout, dropout: shares dropped of the embeddings, and before the output layer.
        label_smoothing: ε of the training loss.
        temperature: what logits are divided by, so that probabilities can be trusted; chosen on validation examples.
        max_length: longest input in words.
    """

    vocabulary_size: int
    labels: tuple[str, ...]
    label_weights: tuple[float, ...] = ()
    embedding_dim: int = 50
    embeddings: str = "trained"
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    temperature: float = 1.0
    max_length: int = 512

    def __post_init__(self):
        for name in ("labels", "label_weights"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)):
                raise ValueError(f"`{name}` must be a list. Received {value!r}.")
            object.__setattr__(self, name, tuple(value))
        for name, low in (("vocabulary_size", 5), ("embedding_dim", 1), ("max_length", 1)):
            self.check_int(name, low)
        for name in ("embedding_dropout", "dropout", "label_smoothing"):
            self.check_share(name)
        self.check_choice("embeddings", ("trained", "frozen"))
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError(f"`labels` must name at least one label, each once. Received {list(self.labels)!r:.200}.")
        if any(not isinstance(one, str) or not one.strip() for one in self.labels):
            raise ValueError(f"`labels` must be text. Received {list(self.labels)!r:.200}.")
        self.check_positive("temperature", self.temperature)
        if self.label_weights and len(self.label_weights) != len(self.labels):
            raise ValueError(
                f"`label_weights` must have a number for each of the {len(self.labels)} labels. Received "
                f"{len(self.label_weights)}."
            )
        for one in self.label_weights:
            self.check_positive("label_weights", one)

    @property
    def least_parameters(self) -> int:
        return self.vocabulary_size * self.embedding_dim

    @staticmethod
    def check_positive(name: str, value):
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
        if not good:
            raise ValueError(f"`{name}` must be a finite number above 0. Received {value!r}.")

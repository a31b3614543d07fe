"""Settings of the family `classification`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from keras_attention.models.model_config import ModelConfig

__all__ = ["ENCODERS", "POOLINGS", "ClassificationConfig"]

ENCODERS = ("lstm", "gru", "directional", "none")
POOLINGS = ("structured", "multi_dim", "attentive", "max", "mean")


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(ModelConfig):
    """Settings of a `ClassificationModel`.

    Attributes:
        vocabulary_size: ids of the tokenizer.
        labels: the names of the labels, in the order of the outputs; a training learns them from its examples.
        label_counts: how many training examples each label had; () where nobody counted.
        embedding_dim: width of the embeddings.
        embeddings: "trained", or "frozen", which stay as they start (see `set_word_vectors`).
        encoder: "lstm" or "gru", in both directions; "directional", self-attention in both directions without
            recurrence (see `DirectionalEncoder`); "none" reads the embeddings themselves.
        units: width of the encoder's states, both directions together.
        num_layers: layers of a recurrent encoder.
        pooling: how the states become one vector: "structured" (several rows of weights), "multi_dim" (weights of its
            own for each channel), "attentive" (one row), "max" or "mean".
        rows: rows of "structured", r.
        attention_units: width of the hidden layer of an attention's scores, d_a.
        penalty: ≥ 0. What `‖A Aᵀ − I‖²_F` of the rows of "structured" adds to the loss, times this.
        hidden_units: width of the hidden layer between the pooled vector and the labels; 0 has none.
        embedding_dropout: share dropped of the embeddings.
        dropout: share dropped of the pooled vector, of the hidden layer, and between recurrent layers.
        label_smoothing: ε of the training loss.
        balanced: whether the training loss weighs examples so that all labels count alike (wants `label_counts`).
        max_length: longest text in tokens.
    """

    vocabulary_size: int
    labels: tuple[str, ...]
    embedding_dim: int
    units: int
    label_counts: tuple[int, ...] = ()
    embeddings: str = "trained"
    encoder: str = "lstm"
    num_layers: int = 1
    pooling: str = "structured"
    rows: int = 8
    attention_units: int = 64
    penalty: float = 0.0
    hidden_units: int = 0
    embedding_dropout: float = 0.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    balanced: bool = False
    max_length: int = 512

    def __post_init__(self):
        self._check_labels()
        for name, low in (
            ("vocabulary_size", 5), ("embedding_dim", 1), ("units", 1), ("num_layers", 1), ("rows", 1),
            ("attention_units", 1), ("hidden_units", 0), ("max_length", 1),
        ):  # fmt: skip
            self.check_int(name, low)
        for name in ("embedding_dropout", "dropout", "label_smoothing"):
            self.check_share(name)
        self.check_choice("embeddings", ("trained", "frozen"))
        self.check_choice("encoder", ENCODERS)
        self.check_choice("pooling", POOLINGS)
        self.check_bool("balanced")
        penalty = self.penalty
        is_number = isinstance(penalty, (int, float)) and not isinstance(penalty, bool)
        if not is_number or not 0 <= penalty < math.inf:
            raise ValueError(f"`penalty` must be a number >= 0. Received {penalty!r}.")
        if penalty and self.pooling != "structured":
            raise ValueError(
                f"`penalty` is {penalty}, but the pooling {self.pooling!r} has no rows to keep apart. Set it to 0, or "
                "`pooling` to 'structured'."
            )
        if self.encoder != "none" and self.units % 2:
            raise ValueError(f"`units` must be even: each direction has half of them. Received {self.units}.")

    def _check_labels(self):
        for name in ("labels", "label_counts"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)):
                raise ValueError(f"`{name}` must be a list. Received {value!r}.")
            object.__setattr__(self, name, tuple(value))
        wrong = [label for label in self.labels if not isinstance(label, str) or not label.strip()]
        if wrong or len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise ValueError(
                f"`labels` must be two or more different names. Received {list(self.labels)!r}. Give each label once."
            )
        counts = self.label_counts
        is_count = [isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in counts]
        if not all(is_count) or len(counts) not in (0, len(self.labels)):
            raise ValueError(
                f"`label_counts` must have a number above 0 for each of the {len(self.labels)} labels, or be empty. "
                f"Received {list(counts)!r}."
            )
        if self.balanced and not counts:
            raise ValueError("`balanced` weighs labels by `label_counts`, which is empty. Give the counts.")

    @property
    def state_units(self) -> int:
        """Width of what is pooled."""
        return self.embedding_dim if self.encoder == "none" else self.units

    @property
    def label_weights(self) -> tuple[float, ...]:
        """How much an example of each label counts in the training loss: 1 for each, or N / (K · count)."""
        if not self.balanced:
            return (1.0,) * len(self.labels)
        return tuple(sum(self.label_counts) / (len(self.labels) * count) for count in self.label_counts)

    @property
    def least_parameters(self) -> int:
        return self.vocabulary_size * self.embedding_dim

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "labels": list(self.labels), "label_counts": list(self.label_counts)}

"""Settings of the family `memory_question_answering`."""

from __future__ import annotations

import dataclasses

from keras_attention.models.label_config import LabelConfig

__all__ = ["MemoryNetworkConfig"]

_TYINGS = ("adjacent", "layer_wise")


@dataclasses.dataclass(frozen=True)
class MemoryNetworkConfig(LabelConfig):
    """Settings of a `MemoryNetworkModel`; see `LabelConfig` for those that all such families share. The labels are the
    answers.

    Attributes:
        hops: how often the question looks at the story.
        tying: "adjacent" or "layer_wise"; see `layers.MemoryAttention`.
        position_encoding: whether the order of the words of a sentence counts.
        position_length: words of a sentence by which places are counted; 0: each sentence's own.
        temporal_encoding: whether the order of the sentences counts.
        max_memories: sentences that are read, the last ones of a story.
        time_noise: share of gaps between the ages of the sentences in training.
        linear_start_steps: batches of training before the hops get their softmax; 0 has it from the start.
        max_length: longest story, in words and ends of the sentences that are read; longest question, in words.
    """

    hops: int = 3
    tying: str = "adjacent"
    position_encoding: bool = True
    position_length: int = 0
    temporal_encoding: bool = True
    max_memories: int = 50
    time_noise: float = 0.1
    linear_start_steps: int = 0
    max_length: int = 1024

    def __post_init__(self):
        super().__post_init__()
        for name, low in (("hops", 1), ("max_memories", 1), ("linear_start_steps", 0), ("position_length", 0)):
            self.check_int(name, low)
        for name in ("position_encoding", "temporal_encoding"):
            self.check_bool(name)
        self.check_share("time_noise")
        self.check_choice("tying", _TYINGS)
        if self.embeddings != "trained" or self.embedding_dropout:
            raise ValueError(
                "The embeddings of a memory network are those of its hops, trained and without dropout. Received "
                f"embeddings {self.embeddings!r}, embedding_dropout {self.embedding_dropout}. Leave both out."
            )

    @property
    def least_parameters(self) -> int:
        tables = self.hops + 1 if self.tying == "adjacent" else 4
        return tables * self.vocabulary_size * self.embedding_dim

"""`Prediction`: what a task model says about one input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """One answer of a task model.

    Attributes:
        output: what the task produces, such as a translation (str) or a label.
        score: float. How good the model finds it; for generated text the log-probability, divided by the length
            penalty.
        attention: list of `AttentionMap`, one for each mechanism that looked at the input.
        alternatives: list of `Prediction`, the other answers of an n-best list, best first.
        extra: dict of further values of the task, in JSON types.
    """

    output: Any
    score: float
    attention: list = field(default_factory=list)
    alternatives: list[Prediction] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types: `output`, `score`, `attention`, `alternatives`, and `extra` where there is any."""
        plain = {
            "output": self.output,
            "score": self.score,
            "attention": [one.to_dict() for one in self.attention],
            "alternatives": [one.to_dict() for one in self.alternatives],
        }
        return {**plain, "extra": self.extra} if self.extra else plain

"""How good a model is, whatever its task: the scores of each task stand in a module of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

# Task -> the module here that has `evaluate(model, examples, **options)` and `require_scorer()` for it.
SCORERS = {
    "classification": "label_metrics",
    "cloze": "cloze_metrics",
    "entailment": "label_metrics",
    "question_answering": "question_metrics",
    "tagging": "tag_scores",
    "relation": "relation_metrics",
    "translation": "metrics",
}


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on examples and scores what it says.

    Args:
        model: a `TaskModel`.
        examples: dicts with the model's `columns`.
        **options: passed on to `model.run`.

    Returns:
        dict: "task", the scores and signatures of the task, "examples", their number, and "seconds", of running them.

    Raises:
        ValueError: there are no examples, or no scores for the task.
        ImportError: a package that computes the scores is not installed.
    """
    return _scorer(model.task).evaluate(model, examples, **options)


def require_scorer(task: str) -> None:
    """Raises an ImportError that says what to install, where the scores of a task need what is not there."""
    _scorer(task).require_scorer()


def _scorer(task: str) -> ModuleType:
    if task not in SCORERS:
        raise ValueError(f"No scores for the task {task!r}. Expected one of {', '.join(sorted(SCORERS))}.")
    return importlib.import_module(f"keras_attention.training.{SCORERS[task]}")

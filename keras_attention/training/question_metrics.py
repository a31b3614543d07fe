"""Scores of answers: the error, over all questions and of each task."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

FAILED = 5.0  # per cent: a task with more errors than that is failed


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on questions and scores its answers; see `scoring.evaluate`.

    Args:
        model: a `TaskModel`; the last of its `columns` is the answer. Examples may have a "task", its number.
    """
    *inputs, answer = model.columns
    examples = list(examples)
    if not examples:
        raise ValueError("There are no examples to evaluate. Expected at least one; check the data file.")
    started = time.perf_counter()
    predictions = model.run([{name: one[name] for name in inputs} for one in examples], attention=False, **options)
    seconds = time.perf_counter() - started
    tasks = [one["task"] for one in examples] if all("task" in one for one in examples) else None
    scores = answer_scores([one[answer] for one in examples], [one.output for one in predictions], tasks)
    return {"task": model.task, **scores, "examples": len(examples), "seconds": seconds}


def answer_scores(gold: Sequence[str], predicted: Sequence[str], tasks: Sequence[int] | None = None) -> dict[str, Any]:
    """Scores of answers that are right or wrong, 0 to 100. An answer that the training never had is one more error.

    Args:
        gold, predicted: answers, one a question.
        tasks: number of the task of each question, or None where none is known.

    Returns:
        dict: "accuracy" over all questions; "mean_error", the mean of the errors of the tasks, or the error over all.
        With tasks, also "failed_tasks", how many have more than 5 % errors (Weston et al., 2015, arXiv 1502.05698), and
        "task_1" …, the error of each.

    Raises:
        ValueError: unequal numbers, or no question.
    """
    if not len(gold) or len(gold) != len(predicted) or (tasks is not None and len(tasks) != len(gold)):
        raise ValueError(
            f"Expected an answer, and a task or none at all, for each of at least one question. Received {len(gold)} "
            f"right answers, {len(predicted)} predictions, {'no' if tasks is None else len(tasks)} tasks."
        )
    wrong = np.array([100.0 * (one != other) for one, other in zip(gold, predicted, strict=True)])
    scores: dict[str, Any] = {"accuracy": 100 - float(wrong.mean()), "mean_error": float(wrong.mean())}
    if tasks is not None:
        numbers = np.array(tasks)
        errors = {f"task_{number}": float(wrong[numbers == number].mean()) for number in sorted(set(tasks))}
        scores["mean_error"] = float(np.mean([*errors.values()]))
        scores |= {"failed_tasks": sum(error > FAILED for error in errors.values()), **errors}
    return scores


def require_scorer() -> None:
    """Nothing: these scores need no other package."""

"""Scores of cloze questions: how many gaps got the right word."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_attention.training.label_metrics import expected_calibration_error


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on questions and scores its words; see `scoring.evaluate`.

    Args:
        model: a `TaskModel`; the last of its `columns` is the answer. Examples may have a "kind".

    Returns:
        Besides what `scoring.evaluate` says: "accuracy", 0 to 100, and that of each kind, such as
        "accuracy_common_noun", where all examples have one; "ece", by how much the probability of the word that was
        chosen differs from how often that is right (see `label_metrics.expected_calibration_error`), in per cent.
    """
    *inputs, answer = model.columns
    examples = list(examples)
    if not examples:
        raise ValueError("There are no examples to evaluate. Expected at least one; check the data file.")
    started = time.perf_counter()
    predictions = model.run([{name: one[name] for name in inputs} for one in examples], attention=False, **options)
    seconds = time.perf_counter() - started
    right = np.array([one.output == example[answer] for one, example in zip(predictions, examples, strict=True)])
    scores = {"accuracy": 100 * float(right.mean())}
    if all("kind" in one for one in examples):
        kinds = np.array([one["kind"] for one in examples])
        scores |= {f"accuracy_{kind}": 100 * float(right[kinds == kind].mean()) for kind in sorted(set(kinds))}
    scores["ece"] = 100 * expected_calibration_error([one.score for one in predictions], right)
    return {"task": model.task, **scores, "examples": len(examples), "seconds": seconds}


def require_scorer() -> None:
    """Nothing: these scores need no other package."""

"""Scores of a model that gives labels: accuracy, macro-F1, and how far its probabilities can be trusted."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

BINS = 15


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on examples and scores its labels; see `scoring.evaluate`.

    Args:
        model: a `LabelModel`; the last of its `columns` is the label.
    """
    return predict_and_score(model, examples, **options)[0]


def predict_and_score(model, examples: Iterable[Mapping[str, Any]], **options) -> tuple[dict, list[str], list[str]]:
    """What `evaluate` returns, the labels of the examples, and those that the model gave them."""
    *inputs, label = model.columns
    examples = list(examples)
    require_scorer()
    if not examples:
        raise ValueError("There are no examples to evaluate. Expected at least one; check the data file.")
    started = time.perf_counter()
    predictions = model.run([{name: one[name] for name in inputs} for one in examples], attention=False, **options)
    seconds = time.perf_counter() - started
    gold, predicted = [one[label] for one in examples], [one.output for one in predictions]
    probabilities = np.array([[*one.extra["probabilities"].values()] for one in predictions])
    scores = label_scores(gold, predicted, probabilities, list(model.config.labels))
    return {"task": model.task, **scores, "examples": len(examples), "seconds": seconds}, gold, predicted


def label_scores(
    gold: Sequence[str], predicted: Sequence[str], probabilities: np.ndarray, labels: Sequence[str]
) -> dict[str, Any]:
    """Scores of labels, 0 to 100.

    Args:
        gold, predicted: labels, one an example.
        probabilities: float (N, C), of each label.
        labels: C str, in the order of the columns of `probabilities`.

    Returns:
        dict: "accuracy"; "macro_f1", the mean over the labels that gold has; "ece", see
        `expected_calibration_error`; "nll", the mean negative log-probability of the right label, in nats.

    Raises:
        ValueError: unequal numbers, no example, or a gold label that is not among `labels`.
        ImportError: scikit-learn is not installed.
    """
    gold, predicted, probabilities = list(gold), list(predicted), np.asarray(probabilities, np.float64)
    if not gold or len(gold) != len(predicted) or probabilities.shape != (len(gold), len(labels)):
        raise ValueError(
            f"Expected a prediction, and a probability of each of the {len(labels)} labels, for each of at least one "
            f"label. Received {len(gold)} labels, {len(predicted)} predictions, probabilities {probabilities.shape}."
        )
    unknown = sorted(set(gold) - set(labels))
    if unknown:
        raise ValueError(f"The model has no label {unknown[0]!r}. Expected one of {', '.join(labels)}.")
    places = [list(labels).index(one) for one in gold]
    metrics = require_scorer().metrics
    f1 = metrics.f1_score(gold, predicted, labels=sorted(set(gold)), average="macro", zero_division=0)
    right = np.array([one == other for one, other in zip(gold, predicted, strict=True)])
    chosen = probabilities[np.arange(len(gold)), places]
    return {
        "accuracy": 100 * float(right.mean()),
        "macro_f1": 100 * float(f1),
        "ece": 100 * expected_calibration_error(probabilities.max(axis=1), right),
        "nll": float(-np.log(np.maximum(chosen, 1e-12)).mean()),
    }


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """By how much the probability of what was chosen differs from how often that is right, 0 to 1.

    Guo et al., 2017 (arXiv 1706.04599), equation 3: `Σ_m |B_m| / n · |acc(B_m) − conf(B_m)|`, over bins of equal width.

    Args:
        confidence: float (N,), in [0, 1].
        right: bool (N,).
        bins: int > 0.
    """
    confidence, right = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)  # bins are open at the left
    gaps = [abs((right - confidence)[place == one].sum()) for one in range(bins)]
    return float(sum(gaps) / len(confidence))


def best_temperature(logits: np.ndarray, places: Sequence[int]) -> float:
    """The temperature at which the probabilities fit the right labels best.

    Guo et al., 2017, section 4.2: the T that minimises the negative log-likelihood of `softmax(logits / T)`, here by
    golden-section search over log T, from a tenth to ten.

    Args:
        logits: float (N, C).
        places: int (N,). Column of the right label. Of validation examples, never of test ones.
    """
    logits, places = np.asarray(logits, np.float64), np.asarray(places)

    def loss(power: float) -> float:
        scaled = logits / np.exp(power)
        top = scaled.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(scaled - top).sum(axis=1))
        return float((total - scaled[np.arange(len(places)), places]).mean())

    low, high, ratio = np.log(0.1), np.log(10.0), (5**0.5 - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return float(np.exp((low + high) / 2))


def paired_bootstrap(
    score: Callable[[np.ndarray], tuple[float, float]], examples: int, samples: int = 1000, seed: int = 12345
) -> dict[str, float]:
    """Is B better than A, or is it chance? Paired bootstrap resampling (Koehn, 2004) of any score.

    Args:
        score: function of the places of examples, int (N,), with repeats → the scores of A and of B on these.
        examples: int > 0. N.
        samples: int > 0. How many test sets to draw.
        seed: int.

    Returns:
        dict: "a", "b", "difference" (b minus a); "p_value", that a difference of this size comes by chance in either
        direction: the share of the draws whose difference is as far from the mean of all as the real one is from 0.
    """
    if examples < 1 or samples < 1:
        raise ValueError(f"Expected at least one example and one sample. Received {examples} and {samples}.")
    generator = np.random.default_rng(seed)
    a, b = score(np.arange(examples))
    drawn = (score(generator.integers(examples, size=examples)) for _ in range(samples))
    differences = np.array([other - one for one, other in drawn])
    as_far = np.abs(differences - differences.mean()) >= abs(b - a)
    return {
        "a": a,
        "b": b,
        "difference": b - a,
        "p_value": float((as_far.sum() + 1) / (samples + 1)) if b != a else 1.0,
    }


def paired_accuracy(right_a: Sequence[bool], right_b: Sequence[bool], **options) -> dict[str, float]:
    """`paired_bootstrap` of two accuracies, 0 to 100: which examples each of two models had right."""
    a, b = np.asarray(right_a, np.float64), np.asarray(right_b, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"Expected the same examples of both. Received {a.shape} and {b.shape}.")
    return paired_bootstrap(lambda places: (100 * a[places].mean(), 100 * b[places].mean()), len(a), **options)


def require_scorer() -> ModuleType:
    """scikit-learn; an ImportError that says what to install where it is missing."""
    try:
        importlib.import_module("sklearn.metrics")
        return importlib.import_module("sklearn")
    except ImportError as error:
        raise ImportError(
            "Scores of labels need the package scikit-learn, which is not installed. "
            'Install it with: pip install "keras-attention-zoo[eval]"'
        ) from error

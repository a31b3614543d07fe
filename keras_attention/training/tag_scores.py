"""Scores of a tagger: of its words, and, where its tags are spans, of these."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attention.training import tag_metrics
from keras_attention.training.label_metrics import paired_bootstrap

Tags = Sequence[Sequence[str]]

_SPANS = {"bio": lambda gold, predicted: tag_metrics.span_scores(gold, predicted, "BIO"), "srl": tag_metrics.srl_scores}


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on examples and scores its tags; see `scoring.evaluate`.

    Args:
        model: a `TaskModel` whose configuration has a `scheme`: "none", "bio" or "srl".
        examples: dicts of "words", "tags" and, for semantic roles, "predicate".
    """
    examples = list(examples)
    require_scorer()
    if not examples:
        raise ValueError("There are no examples to evaluate. Expected at least one; check the data file.")
    inputs = [{name: one[name] for name in ("words", "predicate") if name in one} for one in examples]
    started = time.perf_counter()
    predictions = model.run(inputs, attention=False, **options)
    seconds = time.perf_counter() - started
    predicted = [[tag for _, tag in one.output] for one in predictions]
    scores = tag_scores([one["tags"] for one in examples], predicted, model.config.scheme)
    return {"task": model.task, **scores, "examples": len(examples), "seconds": seconds}


def tag_scores(gold: Tags, predicted: Tags, scheme: str) -> dict[str, Any]:
    """Scores of tags, 0 to 100.

    Args:
        gold, predicted: for each sentence (of semantic roles for each predicate) its tags.
        scheme: "none"; "bio", whose spans are those of seqeval; "srl", whose arguments are those of CoNLL-2005.

    Returns:
        dict: "accuracy", the share of words with the right tag; of spans "precision", "recall", "f1", and "per_type":
        the f1 of each type that gold has.

    Raises:
        ValueError: an unknown scheme, unequal numbers, or a tag that is not BIO where tags are spans.
        ImportError: seqeval is not installed, and the scheme is "bio".
    """
    accuracy = {"accuracy": tag_metrics.token_accuracy(gold, predicted)}
    if scheme == "none":
        return accuracy
    if scheme not in _SPANS:
        raise ValueError(f"Unknown scheme {scheme!r}. Expected one of none, {', '.join(_SPANS)}.")
    spans = _SPANS[scheme](gold, predicted)
    per_type = {kind: one["f1"] for kind, one in spans["per_type"].items() if one["gold"]}
    return {**{name: spans[name] for name in ("f1", "precision", "recall")}, **accuracy, "per_type": per_type}


def paired_scores(gold: Tags, first: Tags, second: Tags, scheme: str, groups=None, **options) -> dict[str, float]:
    """Is the second tagger better than the first, or is it chance? `paired_bootstrap` over sentences: of F1, or of the
    accuracy where tags are no spans.

    Args:
        gold, first, second: for each sentence its tags, and those that both gave to it.
        scheme: see `tag_scores`.
        groups: one hashable a row: rows of equal ones are of one sentence, and drawn together. None: each by itself.
        options: of `paired_bootstrap`.
    """
    groups = list(range(len(gold)) if groups is None else groups)
    numbers = {one: place for place, one in enumerate(dict.fromkeys(groups))}
    where = np.array([numbers[one] for one in groups])
    counts = [_counts(gold, other, scheme, where, len(numbers)) for other in (first, second)]

    def score(places):
        totals = [one[places].sum(axis=0) for one in counts]
        return tuple(100 * right / max(whole, 1.0) for right, whole in totals)

    return paired_bootstrap(score, len(numbers), **options)


def _counts(gold: Tags, predicted: Tags, scheme: str, where: np.ndarray, size: int) -> np.ndarray:
    """float (sentences, 2): what is right, and what that is divided by."""
    counts = np.zeros((size, 2))
    for place, (one, other) in enumerate(zip(gold, predicted, strict=True)):
        if scheme == "none":
            right, whole = sum(map(str.__eq__, one, other)), len(one)
        else:
            found = _SPANS[scheme]([one], [other])
            right, whole = found["correct"], (found["gold"] + found["predicted"]) / 2
        counts[where[place]] += right, whole
    return counts


def require_scorer() -> ModuleType:
    """seqeval; an ImportError that says what to install where it is missing."""
    try:
        return importlib.import_module("seqeval")
    except ImportError as error:
        raise ImportError(
            "Scores of tags need the package seqeval, which is not installed. "
            'Install it with: pip install "keras-attention-zoo[eval]"'
        ) from error

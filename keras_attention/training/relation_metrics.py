"""Scores of a model that says how two entities belong together: macro-F1 by the rule of SemEval-2010, task 8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from keras_attention.training.label_metrics import predict_and_score, require_scorer
from keras_attention.training.tag_metrics import RELATIONS, semeval2010_scores

__all__ = ["evaluate", "require_scorer"]


def evaluate(model, examples: Iterable[Mapping[str, Any]], **options) -> dict[str, Any]:
    """Runs a model on examples and scores its labels; see `scoring.evaluate`.

    Args:
        model: a `RelationModel`.

    Returns:
        as `label_metrics.label_scores`. Where the model has the labels of SemEval-2010 task 8, "macro_f1" is the
        official score, over the 9 relations with their direction, Other left out; "macro_f1_labels" is the mean over
        all labels.

    Raises:
        ValueError: there are no examples, or with those labels none of a relation.
    """
    scores, gold, predicted = predict_and_score(model, examples, **options)
    if not set(model.config.labels) <= {"Other", *RELATIONS}:
        return scores
    official = semeval2010_scores(gold, predicted)["macro_f1"]
    return {**scores, "macro_f1": official, "macro_f1_labels": scores["macro_f1"]}

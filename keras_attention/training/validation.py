"""Validation: the loss a token, the scores of decoded examples, and the samples that callbacks show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_attention.training.pipeline import BatchPlan, TokenStore, tf_dataset
from keras_attention.training.recipe import Recipe
from keras_attention.training.scoring import evaluate, require_scorer
from keras_attention.training.step import LossStep


class Validator:
    """Measures a model on the validation examples.

    Args:
        model: a `TaskModel`.
        recipe: `Recipe`.
        examples: list of example dicts, for decoding.
        store: `TokenStore` of the same examples, for the loss.
        strategy: `tf.distribute.Strategy`.
    """

    def __init__(
        self,
        model: keras.Model,
        recipe: Recipe,
        examples: Sequence[Mapping[str, Any]],
        store: TokenStore,
        strategy: tf.distribute.Strategy,
    ):
        self.model, self.recipe, self.store = model, recipe, store
        limit = recipe.evaluation.valid_examples or len(examples)
        self.examples = list(examples[:limit])
        self.shown = list(examples[: recipe.evaluation.samples])
        self.plan = BatchPlan(store.lengths, **recipe.training.batch_plan, shuffle=False)
        self._loss_step = LossStep(model, strategy)
        if {*recipe.evaluation.metrics, recipe.training.early_stopping.metric} - {"loss"}:
            require_scorer(model.task)  # tell of a missing package before an hour of training

    def scores(self) -> dict[str, float]:
        """Name -> number: "loss" a token, and what the recipe asks for."""
        scores = {"loss": self._loss()}
        wanted = {*self.recipe.evaluation.metrics, self.recipe.training.early_stopping.metric} - {"loss"}
        if wanted:
            decoded = self._decoded()
            missing = sorted(wanted - decoded.keys())
            if missing:
                raise ValueError(
                    f"The evaluation gives no score {missing[0]!r}. Expected one of loss, {', '.join(decoded)}; "
                    "correct `evaluation.metrics` and `training.early_stopping.metric`."
                )
            scores.update(decoded)
        return scores

    def samples(self) -> list[tuple[Mapping[str, Any], Any]]:
        """(example, prediction) of the fixed examples."""
        if not self.shown:
            return []
        predictions = self.model.run([dict(example) for example in self.shown], **self._options())
        return list(zip(self.shown, predictions, strict=True))

    def _options(self) -> dict[str, Any]:
        return {**self.model.validation_options, **self.recipe.evaluation.decoding}

    def _loss(self) -> float:
        loss = tokens = 0.0
        for batch in tf_dataset(self.store, self.plan, epoch=0):
            batch_loss, batch_tokens = self._loss_step(batch)
            loss, tokens = loss + float(batch_loss), tokens + float(batch_tokens)
        mean = loss / max(tokens, 1.0)
        return mean if math.isfinite(mean) else math.inf

    def _decoded(self) -> dict[str, float]:
        found = evaluate(self.model, self.examples, **self._options())
        numbers = {name: value for name, value in found.items() if isinstance(value, float | int)}
        return {name: float(value) for name, value in numbers.items() if name not in ("examples", "seconds")}

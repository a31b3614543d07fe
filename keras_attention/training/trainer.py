"""The trainer: one loop for one device, several, or several workers; killed and started again it goes on."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_attention.training import checkpoints, run_state
from keras_attention.training.callbacks import Callback, Report, TerminalProgress, Validation
from keras_attention.training.devices import check_model, machine, meet, role
from keras_attention.training.examples import fingerprint, vectorized
from keras_attention.training.meter import Meter
from keras_attention.training.optimization import LossScale, WeightAverage, average_decay, learning_rate, make_optimizer
from keras_attention.training.pipeline import BatchPlan, TokenStore, tf_dataset
from keras_attention.training.recipe import Recipe
from keras_attention.training.run_folder import RunFolder
from keras_attention.training.step import TrainStep
from keras_attention.training.tensorboard import TensorBoard
from keras_attention.training.validation import Validator

logger = logging.getLogger(__name__)

MOST_SKIPPED_IN_A_ROW = 20
PENDING_STEPS = 16  # figures of so many steps may wait on a GPU, so that it need not wait for Python


class TrainingError(RuntimeError):
    """The training cannot go on."""


@dataclass(frozen=True)
class FitResult:
    """What a training came to; the model then has the weights of the best validation.

    Args:
        metric, best_metric, best_step: the name of the score that chose the best model, its value, and where.
        steps, epochs: ints. Updates and finished epochs.
        minutes: float, on the clock of the recipe.
        tokens_per_second: float. Target tokens, or what else the loss is a mean over, without validation and saving, of
            this call; 0 where nothing was left to do.
        skipped: int. Updates left out because something was not finite.
        stopped_because: str.
    """

    metric: str
    best_metric: float
    best_step: int
    steps: int
    epochs: int
    minutes: float
    tokens_per_second: float
    skipped: int
    stopped_because: str


class Trainer:
    """Trains a model by a recipe into a run folder.

    The order of the data is a function of (seed, epoch, batch) alone and a checkpoint holds the whole state, so a
    training that is killed at any moment and started again reaches the weights of one that was not (budgets in minutes
    excepted: no two runs use the same time). With several workers all of them must see the run folder.

    Args:
        model: a built `TaskModel`, made within the scope of the strategy.
        recipe: `Recipe`.
        run_folder: path.
        strategy: `tf.distribute.Strategy`; default: the current one.
        callbacks: list of `Callback`; default: progress on stderr, and TensorBoard event files in the run folder.
        resume: "auto" continues from the newest checkpoint of the run folder where there is one; False deletes what an
            earlier training left there and starts over.

    Raises:
        ValueError: the model has no weights, or was made outside the strategy.

    Example:
        >>> trainer = Trainer(model, Recipe.from_yaml("training/nmt_luong.yaml"), "runs/first")   # doctest: +SKIP
        >>> trainer.fit(train, valid).best_metric                                                 # doctest: +SKIP
        37.2
    """

    def __init__(
        self,
        model: keras.Model,
        recipe: Recipe,
        run_folder: str | Path,
        strategy: tf.distribute.Strategy | None = None,
        callbacks: Sequence[Callback] | None = None,
        resume: str | bool = "auto",
    ):
        if resume not in ("auto", True, False):
            raise ValueError(f'`resume` is {resume!r}. Expected "auto" to continue or False to start over.')
        self.model, self.recipe, self.resume = model, recipe, resume
        self.strategy = strategy or tf.distribute.get_strategy()
        self.folder = RunFolder(run_folder, recipe.training.keep_checkpoints)
        check_model(model, recipe, self.strategy)
        self.chief, self._workers = role(self.strategy)
        if callbacks is None:
            callbacks = [TerminalProgress(), TensorBoard(self.folder.tensorboard)] if self.chief else []
        self.callbacks = list(callbacks)
        with self.strategy.scope():
            self.optimizer = make_optimizer(recipe.optimizer, model.trainable_variables)
            self.average = WeightAverage(model.trainable_variables, active=recipe.optimizer.ema_decay > 0)
            self.loss_scale = LossScale(active=recipe.training.precision == "mixed_float16")
        self._step = TrainStep(model, self.optimizer, self.average, self.loss_scale, recipe.optimizer, self.strategy)
        self.state = run_state.RunState()
        self._meter = Meter()
        self._pending: list[tuple[float, float, dict[str, tf.Tensor]]] = []
        self._most_pending = PENDING_STEPS if tf.config.list_logical_devices("GPU") and self._workers == 1 else 1

    def fit(self, train_examples: Iterable[Mapping] | TokenStore, valid_examples: Iterable[Mapping]) -> FitResult:
        """Trains until a budget is used up or validation stops improving.

        Args:
            train_examples: example dicts with the model's columns, or a `TokenStore` of vectorised ones.
            valid_examples: example dicts.

        Returns:
            `FitResult`; the model has the best weights, and `best/` in the run folder is a preset of it.

        Raises:
            ValueError: no examples, or one that the model refuses.
            CheckpointError: the run folder holds the checkpoints of another training, or damaged ones only.
            TrainingError: 20 updates in a row, or every validation, came out not finite.
        """
        store = vectorized(self.model, train_examples, self.recipe, "training", self.recipe.training.max_length)[0]
        valid_store, valid_examples = vectorized(self.model, valid_examples, self.recipe, "validation", 0)
        self.plan = BatchPlan(store.lengths, **self.recipe.training.batch_plan, seed=self.recipe.training.seed)
        self.validator = Validator(self.model, self.recipe, valid_examples, valid_store, self.strategy)
        self._restore({**self.recipe.identity(), "training file": fingerprint(store)})
        self._clock = run_state.Clock(self.recipe.training.minutes_clock, self.state.seconds)
        self._last_checkpoint = self._last_report = time.monotonic()
        self._batches = len(self.plan.batches(self.state.epoch))
        for callback in self.callbacks:
            callback.on_start(self.state.step, self._share())
        result = None
        try:
            result = self._finish(self._loop(store))
        finally:
            for callback in self.callbacks:
                callback.on_end(result)
        return result

    def _variables(self) -> dict[str, Any]:
        """All that a checkpoint keeps, by stable names."""
        return {
            **checkpoints.unique_names(self.model.variables, "model"),
            **checkpoints.unique_names(self.optimizer.variables, "optimizer"),
            **self.average.named(),
            **{f"loss_scale/{index}": variable for index, variable in enumerate(self.loss_scale.variables)},
        }

    def _restore(self, identity: dict[str, str]) -> None:
        found = self.folder.checkpoints.newest() if self.resume else None
        if found:
            tensors, values, path = found
            self.state = run_state.RunState.from_dict(values, identity, path.name)
            checkpoints.assign_variables(self._variables(), tensors, path.name)
        else:
            self.state = run_state.RunState(identity=identity)
        if self.chief:
            self.folder.prepare(self.recipe, fresh=not found)

    def _loop(self, store: TokenStore) -> str:
        """Trains to the end of a budget, and says which."""
        state, config = self.state, self.recipe.training
        while not (reason := run_state.reason_to_stop(config, state)):
            self._batches = len(self.plan.batches(state.epoch))
            dataset = tf_dataset(store, self.plan, state.epoch, start=state.batch)
            self._meter.start()
            for group in _groups(dataset, config.accumulate):
                self._update(group)
                state.batch += len(group)
                epoch_over = state.batch >= self._batches
                if epoch_over:
                    state.epoch, state.batch = state.epoch + 1, 0
                self._after_update(epoch_over)
                if reason := run_state.reason_to_stop(config, state):
                    return reason
        return reason

    def _update(self, group: list[dict[str, tf.Tensor]]) -> None:
        config, state = self.recipe.optimizer, self.state
        rate = learning_rate(config, state.step, run_state.decay_share(self.recipe.training, state, self._batches))
        decay = average_decay(config, state.step)
        self.optimizer.learning_rate = rate
        figures = self._step(group, decay, self._clock.seconds())
        state.step += 1
        self._pending.append((rate, decay, figures))
        if len(self._pending) >= self._most_pending:
            self._collect()
        if self._workers == 1:
            state.seconds = self._clock.seconds()

    def _collect(self) -> None:
        """Fetches the figures of the steps since the last time."""
        state = self.state
        for rate, decay, tensors in self._pending:
            figures = {name: tensor.numpy() for name, tensor in tensors.items()}
            if figures["good"]:
                state.skipped_in_a_row = 0
                state.tokens += float(figures["tokens"])
                self._meter.add(float(figures["loss"]), float(figures["tokens"]))
            else:
                state.skipped += 1
                state.skipped_in_a_row += 1
            self._meter.last = (rate, float(figures["norm"]), decay)
            if self._workers > 1:
                state.seconds = float(figures["clock"])  # the mean: workers must come to the same decisions
        self._pending.clear()
        if state.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            raise TrainingError(
                f"The loss or its gradient was not finite in {state.skipped_in_a_row} updates in a row, up to step "
                f"{state.step}. Expected finite numbers; lower optimizer.learning_rate, set optimizer.clip_norm, or "
                "continue in another precision from the checkpoint before."
            )

    def _after_update(self, epoch_over: bool) -> None:
        """Validation, checkpoint and report, each where it is due."""
        config, state = self.recipe.training, self.state
        validate = state.step % config.validate_every == 0 if config.validate_every else epoch_over
        if validate:
            self._validate()
        now = time.monotonic()
        by_steps = config.checkpoint_every and state.step % config.checkpoint_every == 0
        if by_steps or (config.checkpoint_seconds and now - self._last_checkpoint >= config.checkpoint_seconds):
            self._save_checkpoint()
        if now - self._last_report >= config.log_seconds:
            self._report()

    def _report(self) -> None:
        self._collect()
        self._last_report = time.monotonic()
        if self._meter.tokens:
            loss, speed = self._meter.take()
            rate, norm, decay = self._meter.last
            state = self.state
            report = Report(
                state.step, state.epoch, loss, rate, norm, decay, speed, state.seconds, self._share(), state.skipped,
                self.model.counted,
            )  # fmt: skip
            for callback in self.callbacks:
                callback.on_report(report)

    def _share(self) -> float:
        return run_state.budget_share(self.recipe.training, self.state, self._batches)

    def _validate(self) -> None:
        self._collect()
        self._meter.stop()
        with self.average.swapped():
            better, scores = self._judge({})
            wanted = any(callback.wants_samples for callback in self.callbacks)
            samples = self.validator.samples() if wanted else []
        validation = Validation(self.state.step, scores, better, samples)
        for callback in self.callbacks:
            callback.on_validation(validation)
        if self._workers == 1:
            self.state.seconds = self._clock.seconds()
        self._meter.start()

    def _judge(self, notes: dict[str, Any]) -> tuple[bool, dict[str, float]]:
        """Scores the weights that the model has now, and saves them where they are the best so far."""
        state, metric = self.state, self.recipe.training.early_stopping.metric
        scores = self.validator.scores()
        value, sign = scores[metric], -1 if metric == "loss" else 1
        better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best)
        state.stale = 0 if better else state.stale + 1
        state.validated_step = state.step
        finite = {name: number if math.isfinite(number) else None for name, number in scores.items()}  # JSON has no NaN
        state.history.append({"step": state.step, "seconds": round(state.seconds, 1), **finite, **notes})
        if better:
            state.best, state.best_step = value, state.step
            if self.chief:
                self.folder.save_best(self.model, lambda folder: self._save_preset(folder, scores))
        return better, scores

    def _save_preset(self, folder: Path, scores: dict[str, float]) -> None:
        state, recipe = self.state, self.recipe.without_folders()
        training = {
            "steps": state.step,
            "epochs": state.epoch,
            "minutes": round(state.seconds / 60, 2),
            "minutes_clock": recipe.training.minutes_clock,
            "target_tokens": int(state.tokens),
            "history": state.history,
            "machine": machine(),
        }
        validation = {name: round(value, 4) for name, value in scores.items()}
        self.model.save_to_preset(
            folder, {"scores": {"validation": validation}, "training": training, "recipe": recipe.to_dict()}
        )
        checkpoints.write_bytes(folder / "recipe.yaml", recipe.to_yaml().encode())

    def _save_checkpoint(self) -> None:
        self._collect()
        self._meter.stop()
        if self.chief:
            self.folder.checkpoints.save(self.state.step, self._variables(), self.state.to_dict())
        self._last_checkpoint = time.monotonic()
        self._meter.start()

    def _finish(self, reason: str) -> FitResult:
        state, config = self.state, self.recipe.training
        self._collect()
        if state.validated_step != state.step:
            self._validate()
        self._report()
        self._save_checkpoint()
        if config.average_checkpoints and self._try_average(config.average_checkpoints):
            self._save_checkpoint()
        if state.best is None:
            raise TrainingError(
                f"No validation in {state.step} steps gave a finite {config.early_stopping.metric}, so there is no "
                "best model. Expected a training that converges; lower optimizer.learning_rate or look at the data."
            )
        self._meter.stop()
        self._meet()
        self.folder.load_best(self.model)
        return FitResult(
            metric=config.early_stopping.metric,
            best_metric=state.best,
            best_step=state.best_step,
            steps=state.step,
            epochs=state.epoch,
            minutes=state.seconds / 60,
            tokens_per_second=self._meter.overall(),
            skipped=state.skipped,
            stopped_because=reason,
        )

    def _meet(self) -> None:
        """Before all workers read what one of them writes."""
        if self._workers > 1:
            meet(self.strategy)

    def _try_average(self, count: int) -> bool:
        """Judges the mean of the last checkpoints; True where it is the best so far."""
        self._meet()
        paths = self.folder.checkpoints.paths()[-count:]
        if len(paths) < 2:
            return False
        weights = self.model.trainable_variables
        names = list(self.average.named()) or list(checkpoints.unique_names(weights, "model"))
        own, stale, history = (
            [checkpoints.as_array(weight) for weight in weights],
            self.state.stale,
            len(self.state.history),
        )
        for weight, value in zip(weights, checkpoints.mean_tensors(paths, names), strict=True):
            weight.assign(value)
        better, _ = self._judge({"averaged_checkpoints": len(paths)})
        for weight, value in zip(weights, own, strict=True):
            weight.assign(value)
        if not better:
            self.state.stale = stale
            del self.state.history[history:]
        return better


def _groups(dataset: tf.data.Dataset, size: int) -> Iterator[list[dict[str, tf.Tensor]]]:
    """Batches in lists of `size`; the last list may be shorter."""
    group = []
    for batch in dataset:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group

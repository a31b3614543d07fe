from __future__ import annotations

import io
import json
import logging
import math
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.training import checkpoints
from keras_attention.training.callbacks import Callback, TerminalProgress
from keras_attention.training.checkpoints import CheckpointError
from keras_attention.training.readers import DataError
from keras_attention.training.recipe import Recipe
from keras_attention.training.run_state import RunState, budget_share, decay_share, reason_to_stop
from keras_attention.training.trainer import Trainer, TrainingError
from keras_attention.training.validation import Validator
from tests.training import fake_model
from tests.training.fake_model import FakeModel, recipe, sentences


class Log(Callback):
    def __init__(self):
        self.reports, self.validations, self.ended = [], [], []

    def on_report(self, report):
        self.reports.append(report)

    def on_validation(self, validation):
        self.validations.append(validation)

    def on_end(self, result):
        self.ended.append(result)


def trainer(folder, *settings, model=None, resume="auto", log=None):
    return Trainer(model or FakeModel(), recipe(*settings), folder, callbacks=[log or Log()], resume=resume)


def fit(folder, *settings, **options):
    built = trainer(folder, *settings, **options)
    return built, built.fit(sentences(60), sentences(20, seed=1))


def test_it_learns_and_leaves_the_best_model_in_the_run_folder(tmp_path):
    log = Log()
    built, result = fit(tmp_path, "training.steps=60", "optimizer.decay=cosine", log=log)
    losses = [validation.scores["loss"] for validation in log.validations]
    assert losses[-1] < 0.5 * losses[0]
    assert result.best_metric == min(losses) and result.metric == "loss"
    assert result.steps == 60 and result.best_step == 6 * (1 + int(np.argmin(losses)))
    assert result.stopped_because == "the budget of 60 steps is used" and log.ended == [result]
    metadata = json.loads((tmp_path / "best" / "metadata.json").read_text())
    assert metadata["scores"]["validation"]["loss"] == pytest.approx(result.best_metric, abs=1e-4)
    assert metadata["training"]["steps"] == result.best_step
    assert Recipe.from_yaml(tmp_path / "recipe.yaml") == built.recipe
    assert Recipe.from_yaml(tmp_path / "best" / "recipe.yaml") == built.recipe.without_folders()
    for place in (str(tmp_path), os.uname().nodename):
        assert place not in (tmp_path / "best" / "metadata.json").read_text()


def test_reports_carry_the_figures_of_the_schedule(tmp_path):
    log = Log()
    settings = ("optimizer.warmup_steps=4", "training.steps=8", "training.log_seconds=1e-9")
    fit(tmp_path, *settings, log=log)
    assert [report.step for report in log.reports] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [report.learning_rate for report in log.reports[:5]] == pytest.approx([0.0125, 0.025, 0.0375, 0.05, 0.05])
    assert [report.average_decay for report in log.reports[:2]] == pytest.approx([1 / 10, 2 / 11])
    assert all(report.tokens_per_second > 0 and report.gradient_norm > 0 for report in log.reports)
    assert log.reports[3].share == 0.5


def test_the_loss_is_a_token_whatever_the_padding(tmp_path):
    """The first loss of training is -log softmax of the untrained model, averaged over the tokens of the batch."""
    log, model = Log(), FakeModel(dropout=0.0)
    examples = sentences(8)
    ids = [model.vectorize(example) for example in examples]
    terms = []
    for row in ids:
        logits = keras.ops.convert_to_numpy(model(np.asarray([row["source"]], np.int32)))[0].astype(float)
        terms += [np.log(np.exp(line).sum()) - line[label] for line, label in zip(logits, row["target"], strict=True)]
    Trainer(model, recipe("training.steps=1"), tmp_path, callbacks=[log]).fit(examples, examples)
    assert log.reports[0].loss == pytest.approx(np.mean(terms), rel=1e-5)


def test_one_trace_serves_all_lengths(tmp_path):
    built, _ = fit(tmp_path, "training.batch_size=0", "training.batch_tokens=40", "training.steps=30")
    functions = [*built._step._functions.values(), built.validator._loss_step._function]
    assert [function.experimental_get_tracing_count() for function in functions] == [1, 1]


def test_the_saved_model_is_the_average(tmp_path):
    built, _ = fit(tmp_path, "training.steps=6", "optimizer.ema_decay=0.5")
    tensors, _, _ = built.folder.checkpoints.newest()
    with np.load(tmp_path / "best" / "weights.npz") as saved:
        found = [saved[name] for name in saved.files]
    for index, (weight, value) in enumerate(zip(built.model.trainable_variables, found, strict=True)):
        np.testing.assert_array_equal(value, tensors[f"average/{index:04d}/{weight.path}"])
        assert not np.array_equal(value, tensors[f"model/{weight.path}"])
        np.testing.assert_array_equal(value, weight.numpy())  # and the model in hand has it too


def test_validation_leaves_weights_and_random_state_alone(tmp_path):
    for folder, every in (("often", 2), ("once", 12)):
        fit(tmp_path / folder, "training.steps=12", f"training.validate_every={every}")
    often, once = (
        checkpoints.read_tensors(tmp_path / folder / "checkpoints" / "checkpoint-00000012.safetensors")[0]
        for folder in ("often", "once")
    )
    assert often.keys() == once.keys()
    for name, value in often.items():
        np.testing.assert_array_equal(value, once[name])


def test_early_stopping_counts_validations_without_improvement(tmp_path, monkeypatch):
    log, losses = Log(), iter([3.0, 2.0, 2.5, 2.0, 2.1, 1.0])
    monkeypatch.setattr(Validator, "scores", lambda self: {"loss": next(losses)})
    _, result = fit(tmp_path, "training.steps=1000", "training.early_stopping.patience=3", log=log)
    assert result.stopped_because == "3 validations without a better loss"
    assert (result.best_metric, result.best_step, result.steps) == (2.0, 12, 30)
    assert [validation.better for validation in log.validations] == [True, True, False, False, False]


def test_bleu_chooses_the_best_where_the_recipe_says_so(tmp_path):
    log = Log()
    settings = ("training.early_stopping.metric=bleu", "training.steps=60", "evaluation.valid_examples=7")
    _, result = fit(tmp_path, *settings, log=log)
    found = [validation.scores["bleu"] for validation in log.validations]
    assert result.metric == "bleu" and result.best_metric == max(found) > 50
    assert "seconds" not in log.validations[0].scores


def test_an_unknown_score_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no score 'blue'. Expected one of loss, bleu, chrf"):
        fit(tmp_path, "training.early_stopping.metric=blue")


def test_twenty_updates_in_a_row_that_are_not_finite_end_the_training(tmp_path):
    class Poisoned(FakeModel):
        def loss_terms(self, batch, training):
            loss, tokens = super().loss_terms(batch, training)
            return loss * (math.nan if training else 1.0), tokens

    log = Log()
    with pytest.raises(TrainingError, match=r"not finite in 20 updates in a row, up to step 20.*lower"):
        fit(tmp_path, "training.steps=50", model=Poisoned(), log=log)
    assert log.ended == [None]


def test_a_training_that_never_validates_finitely_says_so(tmp_path):
    class Poisoned(FakeModel):
        def loss_terms(self, batch, training):
            loss, tokens = super().loss_terms(batch, training)
            return loss * (1.0 if training else math.nan), tokens

    with pytest.raises(TrainingError, match="No validation in 24 steps gave a finite loss"):
        fit(tmp_path, model=Poisoned())


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_trains_float32_weights(tmp_path, precision):
    keras.config.set_dtype_policy(precision)
    built, _ = fit(tmp_path, f"training.precision={precision}", "training.steps=60")
    assert {weight.dtype for weight in built.model.trainable_variables} == {"float32"}
    assert built.model.compute_dtype == precision.removeprefix("mixed_")
    assert built.state.history[-1]["loss"] < 0.5 * built.state.history[0]["loss"]
    names = built.folder.checkpoints.newest()[0]
    assert ("loss_scale/0" in names) == (precision == "mixed_float16")


def test_another_precision_than_the_recipe_says_is_told(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        trainer(tmp_path, "training.precision=mixed_bfloat16")
    assert "computes in float32, the recipe says mixed_bfloat16" in caplog.text


def test_averaged_checkpoints_are_kept_only_if_better(tmp_path):
    settings = ("training.steps=40", "training.keep_checkpoints=5", "training.average_checkpoints=5",
                "optimizer.ema_decay=0", "optimizer.name=sgd", "optimizer.clip_norm=0")  # fmt: skip
    # Targets are chance, so the last weights jump about their optimum at a high rate, and their mean lies nearer to it.
    targets = sentences(60, seed=2)
    examples = [
        {"source": " ".join(["a"] * len(example["target"].split())), "target": example["target"]} for example in targets
    ]
    built = trainer(tmp_path / "high", *settings, "optimizer.learning_rate=1.0")
    result = built.fit(examples, examples)
    *history, last = built.state.history
    assert last["averaged_checkpoints"] == 5 and result.best_metric == last["loss"]
    assert last["loss"] < min(validation["loss"] for validation in history)
    names = [f"model/{weight.path}" for weight in built.model.trainable_variables]
    expected = checkpoints.mean_tensors(built.folder.checkpoints.paths(), names)
    for weight, value in zip(built.model.trainable_variables, expected, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)

    built = trainer(tmp_path / "low", *settings, "optimizer.learning_rate=0.01")  # every step is better than the mean
    assert built.fit(examples, examples).best_step == 40
    assert all("averaged_checkpoints" not in validation for validation in built.state.history)


def test_another_model_or_other_data_cannot_continue_a_run(tmp_path):
    fit(tmp_path, "training.steps=4")
    with pytest.raises(CheckpointError, match=r"another model. Expected the same recipe .*resume=False"):
        fit(tmp_path, "model.units=9", "training.steps=8")
    with pytest.raises(CheckpointError, match="another data"):
        fit(tmp_path, "training.seed=4", "training.steps=8")
    with pytest.raises(CheckpointError, match="another training file"):
        trainer(tmp_path, "training.steps=8").fit(sentences(61), sentences(5))
    with pytest.raises(CheckpointError, match="missing"):
        fit(tmp_path, "optimizer.name=sgd", "training.steps=8")
    _, result = fit(tmp_path, "training.steps=8")
    assert result.steps == 8


def test_starting_over_deletes_what_an_earlier_training_left(tmp_path):
    fit(tmp_path, "training.steps=12")
    built, result = fit(tmp_path, "model.units=9", "training.steps=4", resume=False)
    assert result.steps == 4 and [path.name[11:19] for path in built.folder.checkpoints.paths()] == ["00000004"]


def test_a_finished_training_trains_no_further_and_one_with_a_larger_budget_goes_on(tmp_path):
    built, first = fit(tmp_path, "training.steps=12")
    again, second = fit(tmp_path, "training.steps=12")
    assert (second.best_metric, second.steps, second.tokens_per_second) == (first.best_metric, 12, 0.0)
    for name, value in fake_model.weights_of(built.model).items():
        np.testing.assert_array_equal(value, fake_model.weights_of(again.model)[name])
    assert fit(tmp_path, "training.steps=18")[1].steps == 18


def test_a_kill_between_the_two_moves_of_the_best_model_is_mended(tmp_path):
    fit(tmp_path, "training.steps=6")
    os.rename(tmp_path / "best", tmp_path / ".best.previous")
    (tmp_path / ".best.123.tmp").mkdir()
    fit(tmp_path, "training.steps=6")
    assert (tmp_path / "best" / "metadata.json").is_file()
    assert not list(tmp_path.glob(".best*"))


def test_examples_that_are_too_long_or_refused_are_left_out_only_on_request(tmp_path, caplog):
    examples = [*sentences(20), {"source": "", "target": "a"}]
    with pytest.raises(DataError, match="The model refuses training example 21: the source is ''"):
        trainer(tmp_path).fit(examples, sentences(5))
    settings = ("data.skip_bad=true", "training.max_length=4", "training.steps=2")
    with caplog.at_level(logging.WARNING):
        trainer(tmp_path, *settings).fit(examples, sentences(5))
    long = sum(len(example["source"].split()) > 3 for example in sentences(20))
    assert f"1 were refused and {long} are too long; {20 - long} are left" in caplog.text
    with pytest.raises(DataError, match=r"There is no training example left .* 20 too long"):
        trainer(tmp_path / "b", "training.max_length=1").fit(sentences(20), sentences(5))


def test_a_model_without_weights_and_a_file_for_a_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no trainable weights yet. Expected a built model"):
        Trainer(keras.Sequential([keras.layers.Dense(2)]), recipe(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"is a file. Expected a folder"):
        trainer(tmp_path / "file")
    with pytest.raises(ValueError, match=r"`resume` is 'yes'\. Expected"):
        trainer(tmp_path, resume="yes")


@pytest.mark.parametrize(
    ("settings", "state", "share", "decay", "reason"),
    [
        (["training.steps=10"], RunState(step=4), 0.4, 0.4, None),
        (["training.steps=10"], RunState(step=10), 1.0, 1.0, "the budget of 10 steps is used"),
        (["training.steps=0", "training.epochs=4"], RunState(epoch=1, batch=5), 0.375, 0.375, None),
        (["training.steps=0", "training.epochs=4"], RunState(epoch=4), 1.0, 1.0, "the budget of 4 epochs is used"),
        (["training.minutes=2"], RunState(step=6, seconds=90), 0.75, 0.25, None),
        (["training.minutes=2", "training.decay_over=minutes"], RunState(step=6, seconds=60), 0.5, 0.5, None),
        (["training.minutes=2"], RunState(step=6, seconds=121), 1.0, 0.25, "the budget of 2 minutes is used"),
        (["training.early_stopping.patience=2"], RunState(stale=2), 0, 0, "2 validations without a better loss"),
    ],
)
def test_budgets(settings, state, share, decay, reason):
    config = recipe(*settings).training
    assert budget_share(config, state, 10) == pytest.approx(share)
    assert decay_share(config, state, 10) == pytest.approx(decay)
    assert reason_to_stop(config, state) == reason


@pytest.mark.parametrize("kind", ["wall", "cpu"])
def test_a_budget_of_minutes_ends_the_training(tmp_path, kind):
    settings = (
        "training.steps=0",
        "training.minutes=0.02",
        f"training.minutes_clock={kind}",
        "training.validate_every=0",
    )
    _, result = fit(tmp_path, *settings)
    assert result.stopped_because == "the budget of 0.02 minutes is used"
    assert 0.02 <= result.minutes < 1 and result.steps > 0
    _, again = fit(tmp_path, *settings)  # the time is part of the checkpoint
    assert again.steps == result.steps and again.minutes >= result.minutes


def test_progress_off_a_terminal_is_plain_lines(tmp_path):
    stream = io.StringIO()
    Trainer(FakeModel(), recipe("training.steps=6"), tmp_path, callbacks=[TerminalProgress(stream)]).fit(
        sentences(20), sentences(5)
    )
    lines = stream.getvalue().splitlines()
    assert "epoch 1  step 1  loss 2." in lines[0] and "target tokens/s" in lines[0] and "left" in lines[0]
    assert any(line.startswith("validation after step 6: loss ") and line.endswith("(best so far)") for line in lines)
    assert lines[-1].startswith("finished after step 6 and ")
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


def test_progress_on_a_terminal_is_a_bar(tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    Trainer(FakeModel(), recipe("training.steps=6"), tmp_path, callbacks=[TerminalProgress(stream)]).fit(
        sentences(20), sentences(5)
    )
    assert "step 6  loss" in stream.getvalue() and "valid loss" in stream.getvalue()
    assert "finished after step 6" in stream.getvalue()


def test_the_batches_of_a_step_are_what_the_plan_says(tmp_path):
    seen = []

    class Watching(FakeModel):
        def loss_terms(self, batch, training):
            if training:
                tf.py_function(lambda values: seen.append(values.numpy()), [batch["source"]], [])
            return super().loss_terms(batch, training)

    built = trainer(tmp_path, "training.steps=11", model=Watching())
    built.fit(sentences(60), sentences(5))
    expected = [batch for epoch in range(2) for batch in built.plan.batches(epoch)][:11]
    store = [built.model.vectorize(example)["source"] for example in sentences(60)]
    for found, indices in zip(seen, expected, strict=True):
        assert [row[row != 0].tolist() for row in found] == [store[index] for index in indices]

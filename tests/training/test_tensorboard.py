from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_attention.training import tensorboard
from keras_attention.training.tensorboard import TensorBoard
from keras_attention.training.trainer import Trainer
from tests.training.fake_model import FakeMap, FakeModel, recipe, sentences


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    asked = recipe(
        "training.steps=12", "evaluation.metrics=[bleu]", "optimizer.warmup_steps=4", "training.log_seconds=1e-9"
    )
    Trainer(FakeModel(), asked, folder, callbacks=[TensorBoard(folder / "tensorboard")]).fit(
        sentences(40), [{"source": "a b c", "target": "a | b"}, *sentences(10, seed=1)]
    )
    accumulator = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0})
    accumulator.Reload()
    return accumulator


def series(events, tag):
    return [(event.step, tf.make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)]


def test_scalars_have_their_steps_and_values(events):
    rates = dict(series(events, "train/learning_rate"))
    assert list(rates) == list(range(1, 13))
    assert [float(rates[step]) for step in (1, 2, 4, 12)] == pytest.approx([0.0125, 0.025, 0.05, 0.05])
    for tag in ("loss", "gradient_norm", "target_tokens_per_second", "average_decay"):
        values = [float(value) for _, value in series(events, f"train/{tag}")]
        assert len(values) == 12 and np.isfinite(values).all() and min(values) > 0, tag
    for tag in ("loss", "bleu", "chrf"):
        assert [step for step, _ in series(events, f"validation/{tag}")] == [6, 12]


def test_texts_show_source_output_and_reference_escaped(events):
    (_, first), (_, last) = series(events, "samples")
    text = last.item().decode() if hasattr(last, "item") else last[0].decode()
    lines = text.splitlines()
    assert lines[0] == "| source | output | target |" and len(lines) == 4
    assert lines[2].startswith("| a b c | ") and lines[2].endswith(" | a \\| b |")
    assert first.shape == last.shape


def test_images_are_the_pictures_of_the_samples(events):
    (step, value), _ = series(events, "attention/copy/0")
    width, height, picture = value[0], value[1], tf.io.decode_png(value[2]).numpy()
    assert (step, int(width), int(height), picture.shape) == (6, 3, 3, (3, 3, 3))
    assert (picture[np.arange(3), np.arange(3)] == 0).all() and picture[0, 1].tolist() == [255, 255, 255]
    assert len(series(events, "attention/copy/1")) == 2


def test_entropy_and_coverage_are_written(events):
    assert [float(value) for _, value in series(events, "attention/copy_entropy")] == [0.0, 0.0]
    assert [float(value) for _, value in series(events, "attention/copy_coverage")] == [1.0, 1.0]


def test_entropy_is_the_mean_over_rows_that_look_at_something():
    weights = np.array([[[0.25, 0.25, 0.25, 0.25], [0, 0, 0, 0], [0, 1, 0, 0]]])
    assert tensorboard.entropy(weights) == pytest.approx(np.log(4) / 2)
    assert tensorboard.entropy(np.zeros((2, 3))) == 0.0


def test_coverage_is_the_share_of_columns_that_are_looked_at():
    assert tensorboard.coverage(np.array([[0.95, 0.05, 0.0], [0.05, 0.95, 0.0]])) == pytest.approx(2 / 3)


def test_a_picture_is_one_image_of_three_channels():
    image = tensorboard.picture(FakeMap(["x", "y"], ["a", "b", "c", "d", "e"]))
    assert image.dtype == tf.uint8 and image.shape == (1, 2, 5, 3)

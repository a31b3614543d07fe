from __future__ import annotations

import logging
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.training import checkpoints
from keras_attention.training.checkpoints import CheckpointError, Checkpoints
from tests.training import fake_model


def variables(**values):
    return {name: tf.Variable(value) for name, value in values.items()}


def save(folder, *steps, keep=10):
    store = Checkpoints(folder, keep)
    for step in steps:
        store.save(step, variables(a=np.full((2, 3), step, "f"), b=np.int32(step)), {"step": step})
    return store


def test_values_and_state_come_back_exactly(tmp_path):
    tensors, state, path = save(tmp_path, 7).newest()
    fresh = variables(a=np.zeros((2, 3), "f"), b=np.int32(0))
    checkpoints.assign_variables(fresh, tensors, path.name)
    np.testing.assert_array_equal(fresh["a"].numpy(), np.full((2, 3), 7))
    assert fresh["b"].numpy() == 7 and state == {"step": 7}
    assert path.name == "checkpoint-00000007.safetensors"


def test_the_newest_are_kept_in_the_order_of_steps(tmp_path):
    store = save(tmp_path, 9, 10, 100, 1000, keep=3)
    assert [path.name[11:19] for path in store.paths()] == ["00000010", "00000100", "00001000"]
    assert sorted(os.listdir(tmp_path)) == [path.name for path in store.paths()]  # nothing temporary is left


def test_no_checkpoint_is_no_error(tmp_path):
    assert Checkpoints(tmp_path / "none").newest() is None


@pytest.mark.parametrize("kept", [0, 5, 60, 0.5, 0.99])
def test_a_cut_file_falls_back_to_the_one_before(tmp_path, caplog, kept):
    store = save(tmp_path, 1, 2)
    data = store.paths()[-1].read_bytes()
    store.paths()[-1].write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    with caplog.at_level(logging.WARNING):
        _, state, _ = store.newest()
    assert state["step"] == 1
    assert "checkpoint-00000002.safetensors cannot be read" in caplog.text


def test_only_damaged_files_are_an_error(tmp_path):
    store = save(tmp_path, 1, 2)
    for path in store.paths():
        path.write_bytes(b"no")
    with pytest.raises(CheckpointError, match=r"None of the 2 checkpoints .* can be read"):
        store.newest()


def test_a_file_of_another_kind_is_not_taken_for_a_checkpoint(tmp_path):
    checkpoints.write_tensors(tmp_path / "checkpoint-00000003.safetensors", {"a": np.ones(2, "f")}, {})
    with pytest.raises(CheckpointError, match="None of the 1 checkpoints"):
        Checkpoints(tmp_path).newest()


@pytest.mark.parametrize(
    ("fresh", "match"),
    [
        ({"a": np.zeros((2, 3), "f")}, r"none missing, 1 \(b\) left over"),
        ({"a": np.zeros((2, 3), "f"), "b": 1, "c": 1.0}, r"1 \(c\) missing, none left over"),
        ({"a": np.zeros((3, 2), "f"), "b": 1}, r"'a' has shape \(2, 3\). Expected \(3, 2\)"),
    ],
)
def test_what_does_not_fit_is_named_and_touches_nothing(tmp_path, fresh, match):
    tensors, _, path = save(tmp_path, 4).newest()
    fresh = variables(**fresh)
    before = {name: variable.numpy() for name, variable in fresh.items()}
    with pytest.raises(CheckpointError, match=match):
        checkpoints.assign_variables(fresh, tensors, path.name)
    for name, variable in fresh.items():
        np.testing.assert_array_equal(variable.numpy(), before[name])


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "file"
    checkpoints.write_bytes(path, b"old")

    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        checkpoints.write_bytes(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_names_are_unique_and_do_not_depend_on_what_was_built_before():
    first = checkpoints.unique_names(fake_model.FakeModel().variables, "model")
    keras.layers.Dropout(0.5)  # moves the process-wide numbers of seed generators on
    second = checkpoints.unique_names(fake_model.FakeModel().variables, "model")
    assert list(first) == list(second)
    assert any("seed_generator" in name for name in first)

    twins = [keras.Variable(1.0, name="x"), keras.Variable(2.0, name="x"), keras.Variable(3.0, name="x")]
    named = checkpoints.unique_names(twins, "p")
    assert [float(variable.numpy()) for variable in named.values()] == [1.0, 2.0, 3.0] and len(named) == 3


def test_the_mean_is_of_the_named_tensors(tmp_path):
    store = save(tmp_path, 1, 2, 6)
    (mean,) = checkpoints.mean_tensors(store.paths(), ["a"])
    np.testing.assert_array_equal(mean, np.full((2, 3), 3.0, "f"))

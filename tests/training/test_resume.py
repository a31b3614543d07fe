"""A training killed at any moment and started again ends where one that was not ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from keras_attention.training import checkpoints

ROOT = Path(__file__).parents[2]
SETTINGS = (
    "training.steps=60",
    "training.checkpoint_every=5",
    "training.validate_every=4",  # never in step with the checkpoints
    "training.keep_checkpoints=2",
    "training.accumulate=2",
    "training.log_seconds=1e-9",
    "optimizer.decay=cosine",
    "optimizer.ema_decay=0.9",
    "optimizer.learning_rate=0.2",  # high enough for validations that are not better
    "training.early_stopping.patience=6",
)


def start(folder: Path, *settings: str) -> subprocess.Popen:
    program = Path(__file__).with_name("resume_program.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(
        [sys.executable, str(program), str(folder), *SETTINGS, *settings],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def finish(process: subprocess.Popen) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return output.strip()


def kill_beyond(folder: Path, step: int) -> None:
    """Starts the training and kills it when a checkpoint beyond `step` is there."""
    process = start(folder)
    end = time.monotonic() + 200
    try:
        while newest(folder) <= step:
            assert process.poll() is None, process.communicate()[1][-3000:]
            assert time.monotonic() < end, "no checkpoint appeared"
            time.sleep(0.002)
    finally:
        process.kill()
        process.communicate()


def newest(folder: Path) -> int:
    paths = checkpoints.Checkpoints(folder / "checkpoints").paths()
    return int(paths[-1].name[11:-12]) if paths else -1


@pytest.mark.slow
@pytest.mark.ci
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(tmp_path):
    whole = finish(start(tmp_path / "whole"))
    for step in (4, 20):
        kill_beyond(tmp_path / "killed", step)
        assert 0 < newest(tmp_path / "killed") < int(whole.split()[0]), "the kill came too late to prove anything"
    assert finish(start(tmp_path / "killed")) == whole

    ends = [checkpoints.Checkpoints(tmp_path / name / "checkpoints").newest() for name in ("whole", "killed")]
    (tensors, state, path), (other_tensors, other_state, other_path) = ends
    assert path.name == other_path.name
    assert tensors.keys() == other_tensors.keys()
    assert {name.split("/")[0] for name in tensors} == {"model", "optimizer", "average"}
    for name, value in tensors.items():
        np.testing.assert_array_equal(value, other_tensors[name], err_msg=name)
    for values in (state, other_state):  # time differs from run to run, nothing else
        values.pop("seconds")
        for validation in values["history"]:
            validation.pop("seconds")
    assert state == other_state and any(
        later["loss"] > earlier["loss"] for earlier, later in pairwise(state["history"])
    )
    assert state["stale"] > 0 or state["best_step"] == state["step"]

    for part in ("checkpoints/best.safetensors", "best/weights.npz"):
        assert (tmp_path / "whole" / part).read_bytes() == (tmp_path / "killed" / part).read_bytes()
    metadata = [json.loads((tmp_path / name / "best" / "metadata.json").read_text()) for name in ("whole", "killed")]
    assert metadata[0]["scores"] == metadata[1]["scores"]

"""The check that every export must pass: a fresh process runs the file, and its answers are compared with the
model's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_attention.export.report import ExportError
from keras_attention.models.sequences import pad_rows

__all__ = ["LIMITS", "check", "default_inputs", "run_in_fresh_process"]

Inputs = dict[str, np.ndarray]

# Largest difference of scores, probabilities and weights (as a share of the number, or of 1), by precision. Reduced
# precision may find other outputs: there the model's own log-probability of what was found may be worse by at most
# `regret` nats a token or label, on the mean of the cases.
LIMITS = {
    "saved_model": {"difference": 1e-6},
    "float32": {"difference": 1e-4},
    "float16": {"regret": 0.02},
    "int8": {"regret": 0.2},
}


def default_inputs(model, batch_size=None) -> list[Inputs]:
    """Inputs of `ids` to check with: the samples of the model's metadata, else ids at random; several lengths, two
    batch sizes.
    """
    rows = [model.vectorize(example) for example in model.sample_inputs()]
    if not rows:
        random = np.random.default_rng(7)
        rows = [model.random_ids(length, random) for length in (1, 4, 9)]
    names = model.id_columns
    cases = [{name: pad_rows([row[name]], model.pad_id) for name in names} for row in rows]
    if batch_size != 1:
        cases.append({name: pad_rows([row[name] for row in rows], model.pad_id) for name in names})
    return cases


def run_in_fresh_process(kind: str, path: Path, signature: str, cases: dict[str, dict[str, np.ndarray]]):
    """{case: {argument: array}} → {case: {output: array}}, by `runner` in a new Python process.

    Raises:
        ExportError: the file cannot be loaded or run there.
    """
    root = Path(__file__).resolve().parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",  # a GPU, where there is one, is in the hands of the process that waits
    }
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        inputs, outputs = Path(folder, "inputs.npz"), Path(folder, "outputs.npz")
        np.savez(inputs, **{f"{case}/{name}": value for case, one in cases.items() for name, value in one.items()})
        command = [
            sys.executable,
            "-m",
            "keras_attention.export.runner",
            kind,
            str(path),
            signature,
            str(inputs),
            str(outputs),
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ExportError(f"The exported file does not run (exit status {done.returncode}): {last}")
        found: dict[str, dict] = {case: {} for case in cases}
        with np.load(outputs) as archive:
            for key in archive.files:
                case, name = key.split("/")
                found[case][name] = archive[key]
    return found


def check(model, kind: str, path: Path, precision: str, expected, cases: list[Inputs]) -> dict[str, Any]:
    """Compares the `ids` signature of the file with the model's own function.

    Args:
        model: a `TaskModel`.
        kind: "saved_model" or "tflite".
        path: the draft of the export.
        precision: a key of `LIMITS`.
        expected: the function that was exported: ids → dict.
        cases: of `default_inputs`.

    Returns:
        what was found: the largest difference of each output, the share of rows whose whole numbers (ids, labels) are
        equal, and the regret for reduced precisions.

    Raises:
        ExportError: the file does not run, or is further from the model than `LIMITS` allows.
    """
    found = run_in_fresh_process(kind, path, "ids", {str(place): one for place, one in enumerate(cases)})
    given = [{name: tf.constant(value) for name, value in one.items()} for one in cases]
    wanted = [{key: value.numpy() for key, value in expected(*one.values()).items()} for one in given]
    pairs = [(found[str(place)], one) for place, one in enumerate(wanted)]
    for ours, theirs in pairs:
        if set(ours) != set(theirs) or any(ours[key].shape != theirs[key].shape for key in theirs):
            raise ExportError(
                f"The exported file has other outputs than the model: {_shapes(ours)}, expected {_shapes(theirs)}."
            )
    limits = LIMITS[precision]
    equal = float(np.mean([one for pair in pairs for one in _equal_rows(*pair)]))
    result: dict[str, Any] = {"cases": len(pairs), "equal_outputs": round(equal, 4)}
    if "regret" in limits:
        result["regret_nats_per_token"] = round(_regret(model, cases, pairs), 5)
        passed = result["regret_nats_per_token"] <= limits["regret"]
    else:
        numbers = [name for name, value in sorted(wanted[0].items()) if value.dtype.kind == "f"]
        differences = {name: _difference(pairs, name) for name in numbers}
        result |= differences
        passed = equal == 1.0 and all(one <= limits["difference"] for one in differences.values())
    if not passed:
        raise ExportError(
            f"The exported file does not agree with the model, so it was not kept. Found {result}, allowed {limits}."
        )
    return result


def _equal_rows(ours, theirs) -> list[bool]:
    """For each row whether its best answer is the same: the ids of an output, the label, or the tags."""
    name = next(one for one in ("ids", "label", "tags") if one in theirs)
    return [np.array_equal(one, other) for one, other in zip(ours[name], theirs[name], strict=True)]


def _difference(pairs, name) -> float:
    # NumPy's maximum keeps a NaN, Python's may lose it
    shares = [np.abs(ours[name] - theirs[name]) / np.maximum(1.0, np.abs(theirs[name])) for ours, theirs in pairs]
    return float(np.max([share.max(initial=0.0) for share in shares]))


def _regret(model, cases, pairs) -> float:
    """By how many nats a token or label the model likes the file's best outputs less than its own."""
    losses = [0.0, 0.0]
    for inputs, pair in zip(cases, pairs, strict=True):
        for side, outputs in enumerate(pair):
            losses[side] += model.output_loss(inputs, outputs)
    return (losses[0] - losses[1]) / len(pairs)


def _shapes(outputs):
    return {key: value.shape for key, value in sorted(outputs.items())}

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

__all__ = ["LIMITS", "check", "default_sources", "run_in_fresh_process"]

# Largest difference of scores (as a share of the score, or of 1) and of weights, by precision. Reduced precision may
# find other outputs: there the model's own log-probability of what was found may be worse by at most `regret` nats a
# token, on the mean of the cases.
LIMITS = {
    "saved_model": {"score": 1e-6, "attention": 1e-6},
    "float32": {"score": 1e-4, "attention": 1e-4},
    "float16": {"regret": 0.02},
    "int8": {"regret": 0.2},
}


def default_sources(model, batch_size=None) -> list[np.ndarray]:
    """Source ids to check with: the samples of the model's metadata, else ids at random; several lengths, two batch
    sizes.
    """
    samples = (getattr(model, "metadata", None) or {}).get("samples", [])
    if samples and model.tokenizer is not None:
        rows = [model.vectorize({"source": text})["source"] for text in samples]
    else:
        random = np.random.default_rng(7)
        rows = [
            [*random.integers(4, model.config.vocabulary_size, length).tolist(), model.end_id] for length in (1, 4, 9)
        ]
    sources = [pad_rows([row], model.pad_id) for row in rows]
    return sources if batch_size == 1 else [*sources, pad_rows(rows, model.pad_id)]


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


def check(model, kind: str, path: Path, precision: str, expected, sources: list[np.ndarray]) -> dict[str, Any]:
    """Compares the `ids` signature of the file with the model's own function.

    Args:
        model: a `TaskModel`.
        kind: "saved_model" or "tflite".
        path: the draft of the export.
        precision: a key of `LIMITS`.
        expected: the function that was exported: source ids → dict.
        sources: int32 (B, Tv) arrays.

    Returns:
        what was found: largest differences, share of equal outputs, and the regret for reduced precisions.

    Raises:
        ExportError: the file does not run, or is further from the model than `LIMITS` allows.
    """
    found = run_in_fresh_process(kind, path, "ids", {str(place): {"source": one} for place, one in enumerate(sources)})
    wanted = [{key: value.numpy() for key, value in expected(tf.constant(source)).items()} for source in sources]
    pairs = [(found[str(place)], one) for place, one in enumerate(wanted)]
    for ours, theirs in pairs:
        if set(ours) != set(theirs) or any(ours[key].shape != theirs[key].shape for key in theirs):
            raise ExportError(
                f"The exported file has other outputs than the model: {_shapes(ours)}, expected {_shapes(theirs)}."
            )
    limits = LIMITS[precision]
    equal = float(
        np.mean(
            [
                np.array_equal(ours["ids"][row], theirs["ids"][row])
                for ours, theirs in pairs
                for row in range(len(ours["ids"]))
            ]
        )
    )
    result: dict[str, Any] = {"cases": len(pairs), "equal_outputs": round(equal, 4)}
    if "regret" in limits:
        result["regret_nats_per_token"] = round(_regret(model, sources, pairs), 5)
        passed = result["regret_nats_per_token"] <= limits["regret"]
    else:
        result |= {name: _difference(pairs, name) for name in ("score", "attention")}
        passed = equal == 1.0 and all(result[name] <= limits[name] for name in ("score", "attention"))
    if not passed:
        raise ExportError(
            f"The exported file does not agree with the model, so it was not kept. Found {result}, allowed {limits}."
        )
    return result


def _difference(pairs, name) -> float:
    # NumPy's maximum keeps a NaN, Python's may lose it
    shares = [np.abs(ours[name] - theirs[name]) / np.maximum(1.0, np.abs(theirs[name])) for ours, theirs in pairs]
    return float(np.max([share.max(initial=0.0) for share in shares]))


def _regret(model, sources, pairs) -> float:
    """By how many nats a token the model likes the file's best outputs less than its own."""
    losses = [0.0, 0.0]
    for source, pair in zip(sources, pairs, strict=True):
        for side, outputs in enumerate(pair):
            best = np.ascontiguousarray(outputs["ids"][:, 0])
            total, count = model.loss_terms(
                {"source": tf.constant(source), "target": tf.constant(best)}, training=False
            )
            losses[side] += float(total) / max(float(count), 1.0)
    return (losses[0] - losses[1]) / len(pairs)


def _shapes(outputs):
    return {key: value.shape for key, value in sorted(outputs.items())}

"""TensorBoard: figures, fixed translations, and pictures of what the model looks at."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_attention.training.callbacks import Callback, Report, Validation


class TensorBoard(Callback):
    """Writes event files that TensorBoard shows.

    Scalars: `train/…` (loss, learning_rate, gradient_norm, average_decay, target_tokens_per_second, skipped),
    `validation/…` (loss and each score), `attention/<map>_entropy` (mean over the rows, in nats) and
    `attention/<map>_coverage` (share of columns that some row gives at least a tenth). Texts: `samples`. Images:
    `attention/…`, one for each sample.

    Args:
        folder: path of the event files.
    """

    wants_samples = True

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._writer: Any = None

    def on_start(self, step: int, share: float) -> None:
        self._writer = tf.summary.create_file_writer(str(self.folder))

    def on_report(self, report: Report) -> None:
        scalars = {
            "loss": report.loss,
            "learning_rate": report.learning_rate,
            "gradient_norm": report.gradient_norm,
            "average_decay": report.average_decay,
            "target_tokens_per_second": report.tokens_per_second,
            "skipped": report.skipped,
        }
        self._scalars("train", scalars, report.step)

    def on_validation(self, validation: Validation) -> None:
        self._scalars("validation", validation.scores, validation.step)
        with self._writer.as_default(step=validation.step):
            if validation.samples:
                tf.summary.text("samples", _table(validation.samples))
            statistics: dict[str, list[float]] = {}
            for index, (_, prediction) in enumerate(validation.samples):
                for attention in prediction.attention[:1]:
                    tf.summary.image(f"attention/{attention.name}/{index}", picture(attention))
                for attention in prediction.attention:
                    statistics.setdefault(f"{attention.name}_entropy", []).append(entropy(attention.weights))
                    statistics.setdefault(f"{attention.name}_coverage", []).append(coverage(attention.weights))
        self._scalars("attention", {name: np.mean(values) for name, values in statistics.items()}, validation.step)
        self._writer.flush()

    def on_end(self, result: Any) -> None:
        if self._writer is not None:
            self._writer.close()

    def _scalars(self, group: str, values: Mapping[str, float], step: int) -> None:
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{group}/{name}", float(value))


def entropy(weights: np.ndarray) -> float:
    """Mean entropy of the rows, in nats; rows that look at nothing are left out.

    Args:
        weights: (…, rows, columns).
    """
    weights = np.asarray(weights, dtype=np.float64)
    total = weights.sum(axis=-1, keepdims=True)
    share = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    terms = share * np.log(share, out=np.zeros_like(share), where=share > 0)
    seen = total[..., 0] > 0
    return float(-terms.sum(axis=-1)[seen].mean()) if seen.any() else 0.0


def coverage(weights: np.ndarray, least: float = 0.1) -> float:
    """Share of the columns that some row gives at least `least`.

    Args:
        weights: (…, rows, columns).
        least: float. The weight from which on a column counts.
    """
    return float((np.asarray(weights).max(axis=-2) >= least).mean())


def picture(attention: Any) -> tf.Tensor:
    """An `AttentionMap` as an image, uint8 (1, height, width, 3)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "attention.png")
        attention.plot(path)
        return tf.io.decode_png(path.read_bytes(), channels=3)[None]


def _table(samples: list[tuple[Mapping[str, Any], Any]]) -> str:
    """A Markdown table: the columns of the example, and the output before the last of them."""
    names = list(samples[0][0])
    head = [names[0], "output", *names[1:]]
    rows = [
        [example[names[0]], prediction.output, *(example[name] for name in names[1:])]
        for example, prediction in samples
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

"""Training: readers, batches, the trainer, its callbacks and metrics. Nothing below is loaded before it is used."""

from __future__ import annotations

import importlib

_NAMES = {
    "BadLines": "readers",
    "BatchPlan": "pipeline",
    "Callback": "callbacks",
    "CheckpointError": "checkpoints",
    "DataConfig": "recipe",
    "DataError": "readers",
    "EvaluationConfig": "recipe",
    "FitResult": "trainer",
    "OptimizerConfig": "recipe",
    "Recipe": "recipe",
    "Splits": "splits",
    "TensorBoard": "tensorboard",
    "TokenStore": "pipeline",
    "TokenizerConfig": "recipe",
    "Trainer": "trainer",
    "TrainingConfig": "recipe",
    "TrainingError": "trainer",
    "evaluate": "metrics",
    "read_examples": "readers",
    "read_lines": "readers",
    "split_pairs": "splits",
    "tf_dataset": "pipeline",
}

__all__ = [*_NAMES]


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

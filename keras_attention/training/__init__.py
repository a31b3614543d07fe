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
    "evaluate": "scoring",
    "make_cloze": "cloze",
    "parse_relation": "relations",
    "read_babi": "babi",
    "read_conll": "conll",
    "read_examples": "readers",
    "read_lines": "readers",
    "read_propositions": "propositions",
    "read_relations": "relations",
    "semeval2010_macro_f1": "tag_metrics",
    "semeval2010_scores": "tag_metrics",
    "span_scores": "tag_metrics",
    "split_pairs": "splits",
    "srl_scores": "tag_metrics",
    "tf_dataset": "pipeline",
    "token_accuracy": "tag_metrics",
}

__all__ = [*_NAMES]


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Attention you can read, see, train and ship.

Importing this package is light: nothing below is loaded before it is used.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_SUBMODULES = ("alignments", "decoding", "export", "layers", "maps", "models", "scores", "text", "training", "zoo")
_NAMES = {"AttentionMap": "maps", "Prediction": "models", "TaskModel": "models", "attention_maps": "inspection"}

__all__ = [*_SUBMODULES, *_NAMES]


def __getattr__(name: str):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Exports that run without this library. Each is checked in a fresh process before it is kept."""

from __future__ import annotations

import importlib

_NAMES = {
    "ExportError": "report",
    "ExportReport": "report",
    "to_saved_model": "saved_model",
    "to_tflite": "tflite",
}

__all__ = [*_NAMES]


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

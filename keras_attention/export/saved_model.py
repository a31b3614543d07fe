"""`to_saved_model`: for TensorFlow Serving, and for any process that has TensorFlow."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_attention.export import parity
from keras_attention.export.report import ExportError, ExportReport, check_target, publish, serving_options

__all__ = ["describe", "to_saved_model"]


def to_saved_model(
    model,
    path: str | os.PathLike,
    *,
    signature: str = "text",
    beam_size: int | None = None,
    length_penalty: float | None = None,
) -> ExportReport:
    """Writes a SavedModel.

    Args:
        model: a `TaskModel`.
        path: folder to write; an existing SavedModel there is replaced.
        signature: "text": the signatures `text` (strings in and out, the default one) and `ids`; a process that loads
            it must `import tensorflow_text` first. "ids": `ids` alone, which needs TensorFlow only.
        beam_size: int > 0. Hypotheses of the search, and of the output; 1 is greedy, and the default.
        length_penalty: float; the model's own by default.

    Returns:
        `ExportReport`.

    Raises:
        ValueError: an unknown `signature`, "text" of a model without a tokenizer, or options of a search for a model
            that searches nothing.
        ExportError: the SavedModel, loaded in a fresh process, does not say what the model says. Nothing is written
            then.
        OSError: the folder above `path` is missing or cannot be written.
    """
    target = check_target(path, "")
    if target.is_dir() and any(target.iterdir()) and not (target / "saved_model.pb").is_file():
        raise FileExistsError(f"{target} holds other files and no SavedModel. Give a new or empty folder.")
    if signature not in ("text", "ids"):
        raise ValueError(f"`signature` must be 'text' or 'ids'. Received {signature!r}.")
    options = serving_options(model, beam_size=beam_size, length_penalty=length_penalty)
    functions = model.serving_functions(**options)
    if signature not in functions:
        raise ValueError("The model has no tokenizer, so it has no `text` signature. Export with signature='ids'.")
    functions = {name: function for name, function in functions.items() if name in (signature, "ids")}
    signatures = {name: function.get_concrete_function() for name, function in functions.items()}
    module = tf.Module()
    module.variables_used = [variable.value for variable in model.variables]  # the model itself holds more than these
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".export-") as folder:
        draft = Path(folder, "saved_model")
        tf.saved_model.save(module, draft, signatures={**signatures, "serving_default": signatures[signature]})
        checks = parity.check(
            model, "saved_model", draft, "saved_model", functions["ids"], parity.default_inputs(model)
        )
        if "text" in functions:
            checks["text"] = _check_text(model, draft, functions["text"])
        details = {
            "format": "saved_model",
            "signatures": {name: describe(function) for name, function in signatures.items()},
            **({"beam_size": options.get("beam_size", 1)} if model.generates else {}),
            "checks": checks,
        }
        size = sum(file.stat().st_size for file in draft.rglob("*") if file.is_file())
        return ExportReport(target, publish(model, draft, target, details), size, checks)


def _check_text(model, draft: Path, function) -> dict[str, Any]:
    """Strings in and out, equal to the model's: a batch of several lengths and a batch of one."""
    samples = model.sample_inputs() or [model.as_example(one) for one in model.trial_inputs()]
    names = [spec.name for spec in function.input_signature]
    columns = model.columns[: model.input_columns]
    rows = [[model.as_text(column, one[column]).encode() for column in columns] for one in samples]
    cases = {
        key: {name: np.array(values) for name, values in zip(names, zip(*chosen, strict=True), strict=True)}
        for key, chosen in (("many", rows), ("one", rows[:1]))
    }
    found = parity.run_in_fresh_process("saved_model", draft, "text", cases)
    for key, arguments in cases.items():
        wanted = function(*(tf.constant(arguments[name]) for name in names))["text"].numpy()
        if not np.array_equal(found[key]["text"].astype(object), wanted):
            raise ExportError(
                f"The `text` signature says {found[key]['text'].tolist()}, the model {wanted.tolist()}. "
                f"Nothing was kept."
            )
    return {"cases": len(samples) + 1, "equal_outputs": 1.0}


def describe(function) -> dict[str, Any]:
    """Inputs and outputs of a concrete function, in JSON types; null for a size that is open."""
    inputs = {spec.name: spec for spec in function.structured_input_signature[0]}
    return {
        "inputs": {name: _spec(spec) for name, spec in inputs.items()},
        "outputs": {name: _spec(spec) for name, spec in sorted(function.structured_outputs.items())},
    }


def _spec(spec):
    shape = None if spec.shape.rank is None else [None if size is None else int(size) for size in spec.shape]
    return {"dtype": spec.dtype.name, "shape": shape}

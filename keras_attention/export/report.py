"""What an export came to, and the sidecar that tells an app how to use the file."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import shutil
from pathlib import Path
from typing import Any

from keras_attention.text.tokenizers import TOKENIZERS

__all__ = ["ExportError", "ExportReport", "check_target", "publish", "serving_options"]


class ExportError(RuntimeError):
    """An export that failed, or that did not say the same as the model; nothing was written."""


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """A file that was written, once its check had passed.

    Attributes:
        path: the SavedModel folder or the file.
        sidecar: the .json beside it.
        size: bytes.
        checks: what the parity check found, in JSON types.
    """

    path: Path
    sidecar: Path
    size: int
    checks: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "sidecar": str(self.sidecar), "size": self.size, "checks": self.checks}


def check_target(path: str | os.PathLike, suffix: str) -> Path:
    """`path`, once it can be written: before any work is done.

    Raises:
        ValueError: another suffix than the format's.
        OSError: the folder above it is missing or cannot be written.
    """
    path = Path(path)
    if suffix and path.suffix != suffix:
        raise ValueError(
            f"The file must end in {suffix}. Received {path.name!r}. Rename it, for example to {path.stem + suffix!r}."
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {path.name} into. Make it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written. Choose another.")
    if suffix and path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the name of a file.")
    if not suffix and path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file. Give the name of a folder.")
    return path


def serving_options(model, **options) -> dict[str, Any]:
    """The options of a search that an export was given, for `serving_functions`.

    Raises:
        ValueError: the model searches nothing.
    """
    given = {name: value for name, value in options.items() if value is not None}
    taken = inspect.signature(model.serving_functions).parameters
    for name in given:
        if name not in taken:
            raise ValueError(f"`{name}` is of a search, and a model of the task {model.task!r} has none. Leave it out.")
    return given


def publish(model, draft: Path, target: Path, details: dict[str, Any]) -> Path:
    """Moves a finished file or folder to its place, with its sidecar `<target>.json` and the tokenizer beside it.

    Everything is written before the first move, and the sidecar is moved last: it never describes a file that is not
    there yet.

    Args:
        model: a `TaskModel`.
        draft: the file or folder, in a temporary folder on the disk of `target`.
        target: where it goes.
        details: what the sidecar says besides, in JSON types.

    Returns:
        the path of the sidecar.
    """
    name = target.name if draft.is_dir() else target.stem
    values, moves = _sidecar(model, draft, target, details), []
    if model.tokenizer is not None:
        file = target.with_name(f"{name}.{model.tokenizer.file_name}")
        values["tokenizer"]["file"] = file.name
        moves.append((_written(draft.parent / "tokenizer", model.tokenizer.model_bytes), file))
    sidecar = target.with_name(f"{target.name}.json")
    text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    moves += [(draft, target), (_written(draft.parent / "sidecar", text.encode()), sidecar)]
    for source, place in moves:
        _replace(source, place)
    return sidecar


def _sidecar(model, draft: Path, target: Path, details: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "format_version": 1,
        "file": target.name,
        "task": model.task,
        **details,
        **model.sidecar(),
    }
    if draft.is_file():
        values["sha256"] = hashlib.sha256(draft.read_bytes()).hexdigest()
    if model.tokenizer is not None:
        values["special_ids"]["unknown"] = model.tokenizer.unk_id
        values["tokenizer"] = {
            "kind": next(name for name, kind in TOKENIZERS.items() if type(model.tokenizer) is kind),
            "sha256": hashlib.sha256(model.tokenizer.model_bytes).hexdigest(),
            "vocabulary_size": model.tokenizer.vocabulary_size,
            "add_end": "end" in values["special_ids"],
        }
    metadata = getattr(model, "metadata", None) or {}
    return values | {key: metadata[key] for key in ("scores", "weights_license", "headline") if key in metadata}


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _replace(draft: Path, target: Path):
    """Moves a file or folder; a folder that stood there goes only then."""
    if not target.is_dir():
        os.replace(draft, target)
        return
    target = target.resolve()  # through a link, so that the link stays
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    os.replace(target, old)
    try:
        os.replace(draft, target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old)

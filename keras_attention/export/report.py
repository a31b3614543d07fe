"""What an export came to, and the sidecar that tells an app how to use the file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

__all__ = ["ExportError", "ExportReport", "check_target", "place", "write_sidecar"]


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
    return path


def place(draft: Path, target: Path):
    """Moves a finished file or folder to its place; what stood there goes only then."""
    if target.is_dir():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(target, old)
        os.replace(draft, target)
        shutil.rmtree(old)
    else:
        os.replace(draft, target)


def write_sidecar(model, target: Path, details: dict[str, Any]) -> Path:
    """Writes `<target>.json` and, where the model has a tokenizer, its file as `<stem>.sentencepiece.model`."""
    values: dict[str, Any] = {
        "format_version": 1,
        "file": target.name,
        "task": model.task,
        **details,
        "special_ids": {"pad": model.pad_id, "start": model.start_id, "end": model.end_id},
        "max_length": model.config.max_length,
    }
    if model.tokenizer is not None:
        data = model.tokenizer.model_bytes
        file = target.with_name(f"{target.stem}.sentencepiece.model")
        _write_bytes(file, data)
        values["special_ids"]["unknown"] = model.tokenizer.unk_id
        values["tokenizer"] = {
            "kind": "sentencepiece",
            "file": file.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "vocabulary_size": model.tokenizer.vocabulary_size,
            "add_end": True,
        }
    metadata = getattr(model, "metadata", None) or {}
    for key in ("scores", "weights_license", "headline"):
        if key in metadata:
            values[key] = metadata[key]
    sidecar = target.with_name(f"{target.name}.json")
    _write_bytes(sidecar, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())
    return sidecar


def _write_bytes(path: Path, data: bytes):
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(data)
    os.replace(draft, path)

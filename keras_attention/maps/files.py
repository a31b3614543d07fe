"""Writes whole files or none."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: str | os.PathLike, content: bytes) -> Path:
    """Writes a file beside its place and moves it there, so that nobody ever reads half of it.

    Args:
        path: str or path. A link is followed; a device or a pipe is written directly.
        content: bytes.

    Returns:
        `path` as a Path.

    Raises:
        OSError: the file cannot be written; the class is that of the cause, e.g. PermissionError.
    """
    path = Path(path)
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            place.write_bytes(content)
        else:
            _replace(place, content)
    except OSError as error:
        raise type(error)(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Expected a file name in a folder that exists and "
            f"can be written to. Make the folder, free its space, or give another path."
        ) from error
    return path


def _replace(place: Path, content: bytes) -> None:
    if place.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    beside = place.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        beside.write_bytes(content)
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)

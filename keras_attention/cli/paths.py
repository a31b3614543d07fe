"""Looks whether results can be written, before anything is computed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from keras_attention.cli.errors import Failure


def check_files(paths: Iterable[Path]) -> None:
    """Raises `Failure` where one of the files could not be written."""
    folders = set()
    for path in paths:
        if path.is_dir():
            raise Failure(f"Cannot write {path}: it is a folder. Give the name of a file.")
        if path.exists() and not path.is_file():
            continue  # a device or a pipe
        folders.add(path.absolute().parent)
    for folder in sorted(folders):
        _check_folder(folder, f"Cannot write into {folder}")


def check_folder(path: Path) -> None:
    """Raises `Failure` where a folder could not be made, or not be written into."""
    if path.exists() and not path.is_dir():
        raise Failure(f"Cannot make the folder {path}: there is a file of this name. Choose another.")
    folder = path.absolute()
    while not folder.exists():
        folder = folder.parent
    _check_folder(folder, f"Cannot make the folder {path}")


def _check_folder(folder: Path, what: str) -> None:
    if not folder.exists():
        raise Failure(f"{what}: there is no such folder. Make it first.")
    if not folder.is_dir():
        raise Failure(f"{what}: {folder} is a file. Choose another place.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise Failure(f"{what}: {error.strerror}. Choose another place, or change its permissions.") from error

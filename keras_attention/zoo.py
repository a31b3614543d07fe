"""The door to the zoo: list, open and save presets. Only opening one loads TensorFlow."""

from __future__ import annotations

import difflib
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_attention.preset_hashes import METADATA_SHA256
from keras_attention.resources import data_folder

if TYPE_CHECKING:
    from keras_attention.models import TaskModel
    from keras_attention.models.preset import PresetError

__all__ = [
    "METADATA_KEYS",
    "Entry",
    "PresetError",
    "UnknownEntryError",
    "card",
    "find",
    "list",
    "load",
    "names",
    "save",
]

# What the metadata of a bundled preset holds at least.
METADATA_KEYS = ("task", "description", "weights_license", "headline", "parameters", "scores", "recipe", "files")


class UnknownEntryError(ValueError):
    """There is no entry of this name; the message names the nearest ones and all there are."""


@dataclass(frozen=True)
class Entry:
    """What is known of a bundled preset without opening it.

    Attributes:
        name: str. What `load` takes.
        task, family, description: str.
        parameters: int. Number of weights.
        size_bytes: int. Bytes of its files together.
        weights_license: str. The licence of the weights, which the data decides.
        headline: str. Its main score, with the test set.
        path: Path of its folder.
    """

    name: str
    task: str
    family: str
    description: str
    parameters: int
    size_bytes: int
    weights_license: str
    headline: str
    path: Path


def names() -> tuple[str, ...]:
    """The names of all bundled presets."""
    return tuple(sorted(path.name for path in _bundled()))


def list() -> list[Entry]:
    """All bundled presets, by name. One that cannot be read is left out, with a warning that says why."""
    entries = []
    for name in names():
        try:
            entries.append(_entry(data_folder("zoo") / name))
        except (OSError, ValueError) as error:
            warnings.warn(f"The entry {name} is damaged: {error} Reinstall keras-attention-zoo.", stacklevel=2)
    return entries


def load(name_or_folder: str | os.PathLike, *, dtype: Any = None) -> TaskModel:
    """Opens a preset: a folder that `save` wrote, a run folder of a training, or an entry by its name.

    Nothing in a preset is run, and every file must have the hash that its metadata says; the hashes of the metadata of
    bundled presets stand in the code.

    Args:
        name_or_folder: str or path. A folder that holds a preset goes before an entry of the same name.
        dtype: dtype or dtype policy of the model; float32 by default.

    Returns:
        The `TaskModel`; its `metadata` is that of the preset.

    Raises:
        UnknownEntryError: there is no such entry.
        FileNotFoundError: there is no such folder, or no preset in it.
        PresetError: a file is missing, damaged or not what the metadata says; an unknown version, family or key.

    Example:
        >>> model = load("nmt_luong")                               # doctest: +SKIP
        >>> model.translate("Where is the library?").output         # doctest: +SKIP
        'Où est la bibliothèque ?'
    """
    folder, is_bundled = _located(name_or_folder)
    digest = METADATA_SHA256.get(folder.name) if is_bundled else None
    from keras_attention.models import preset

    if is_bundled and digest is None:
        raise preset.PresetError(
            f"The entry {folder.name} has no hash in this release, so it cannot be told whether it is whole. "
            "Reinstall keras-attention-zoo; in a checkout, run `python -m keras_attention.preset_hashes`."
        )
    return preset.load(folder, dtype=dtype, metadata_sha256=digest)


def save(
    model: TaskModel,
    folder: str | os.PathLike,
    metadata: dict[str, Any] | None = None,
    *,
    embeddings_dtype: str = "float16",
) -> Path:
    """Writes a model as a preset folder that `load` opens.

    Args:
        model: a `TaskModel`.
        folder: path. Made if need be; a preset that is there is replaced, other files stay.
        metadata: dict of JSON types, e.g. scores; `parameters` and `files` are added.
        embeddings_dtype: "float16" as all other weights, or "int8": half as large, each row of an embedding rounded to
            255 even steps between plus and minus its largest number.

    Returns:
        The folder.

    Raises:
        PresetError: a weight is not finite, or too large for float16.
        ValueError: an unknown `embeddings_dtype`.
    """
    from keras_attention.models import preset

    return preset.save(model, folder, metadata, embeddings_dtype=embeddings_dtype)


def card(name_or_folder: str | os.PathLike) -> str:
    """The card of a preset, in Markdown: what it does, how well, and what it was trained on.

    Raises:
        UnknownEntryError, FileNotFoundError: as `load`; FileNotFoundError also where the preset has no card.
    """
    path = find(name_or_folder) / "README.md"
    if not path.is_file():
        raise FileNotFoundError(f"The preset has no card: there is no {path}. Look into its metadata.json instead.")
    return path.read_text("utf-8")


def find(name_or_folder: str | os.PathLike) -> Path:
    """The folder of a preset that `load` would open, without opening it.

    Raises:
        UnknownEntryError, FileNotFoundError: as `load`.
    """
    return _located(name_or_folder)[0]


def _bundled() -> Iterator[Path]:
    for path in data_folder("zoo").iterdir():
        if not path.name.startswith(("_", ".")) and (path / "config.json").is_file():
            yield path


def _located(name_or_folder: str | os.PathLike) -> tuple[Path, bool]:
    """(folder of the preset, whether it is a bundled one)."""
    if not isinstance(name_or_folder, str | os.PathLike):
        raise TypeError(
            f"Received {name_or_folder!r}. Expected the name of an entry or a folder; pass a str or a path."
        )
    name, folder = str(name_or_folder), Path(name_or_folder)
    if name:
        for candidate in (folder, folder / "best"):
            if (candidate / "config.json").is_file():
                return candidate, False
    is_name = isinstance(name_or_folder, str) and not any(mark in name for mark in ("/", os.sep, os.altsep) if mark)
    if is_name and name in names():
        return data_folder("zoo") / name, True
    if name and folder.is_dir():
        is_run = (folder / "recipe.yaml").is_file()
        why = "its training has not saved a model yet" if is_run else "it has no config.json"
        raise FileNotFoundError(f"There is no preset in {folder}: {why}. Give a folder that `zoo.save` wrote.")
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file. Expected the folder of a preset; give the one it lies in.")
    if not is_name:
        raise FileNotFoundError(f"There is no folder {folder}. Expected one that `zoo.save` wrote; check the path.")
    raise UnknownEntryError(_unknown(name))


def _unknown(name: str) -> str:
    known = names()
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return (
        f"There is no entry {name!r} in the zoo. {hint}Expected one of {', '.join(known) or '(none is bundled)'}, "
        "or the folder of a preset."
    )


def _entry(folder: Path) -> Entry:
    config, metadata = _json_object(folder / "config.json"), _json_object(folder / "metadata.json")
    missing = [key for key in METADATA_KEYS if key not in metadata]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing in metadata.json.")
    if "family" not in config:
        raise ValueError("'family' is missing in config.json.")
    texts = {key: metadata[key] for key in ("task", "description", "weights_license", "headline")}
    wrong = [key for key, value in {**texts, "family": config["family"]}.items() if not isinstance(value, str)]
    if wrong or isinstance(metadata["parameters"], bool) or not isinstance(metadata["parameters"], int):
        raise ValueError(f"{wrong[0] if wrong else 'parameters'!r} is of the wrong type.")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Entry(
        name=folder.name,
        family=config["family"],
        parameters=metadata["parameters"],
        size_bytes=size,
        path=folder,
        **texts,
    )


def _json_object(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON in UTF-8 ({error}).") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} holds no JSON object.")
    return values


def __getattr__(name: str) -> Any:
    if name == "PresetError":  # its module needs NumPy, which listing must not load
        from keras_attention.models.preset import PresetError

        return PresetError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Preset folders: how a task model is written to disk and read again, as data only.

- config.json: `{"version": 1, "family": …, "model": {…}}`
- tokenizer/: the tokenizer's own file
- model.safetensors: the weights, float16 (counts: int32), by the paths of the variables; of embeddings that are kept in
  int8, the rows as whole numbers, and under the path with `.scale` behind it what each row was divided by, float32
- metadata.json: parameters, scores, recipe, licence, and the SHA-256 of each file above
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from keras_attention.models import family_class
from keras_attention.text.tokenizers import load_tokenizer

__all__ = [
    "CONFIG_FILE",
    "EMBEDDINGS_DTYPES",
    "METADATA_FILE",
    "VERSION",
    "WEIGHTS_FILE",
    "PresetError",
    "file_hashes",
    "load",
    "read_json",
    "rounded_rows",
    "save",
]

VERSION = 1
CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE, TOKENIZER_FOLDER = (
    "config.json",
    "metadata.json",
    "model.safetensors",
    "tokenizer",
)
_MAX_JSON_BYTES = 4 * 2**20
_MAX_WEIGHT_BYTES = 2 * 2**30
_SCALE = ".scale"
EMBEDDINGS_DTYPES = ("float16", "int8")


class PresetError(ValueError):
    """A preset folder that is incomplete, damaged, or not what its own metadata says."""


def save(
    model, folder: str | os.PathLike, metadata: dict[str, Any] | None = None, *, embeddings_dtype: str = "float16"
) -> Path:
    """Writes `model` as a preset folder.

    An existing preset is replaced file by file, each in one move; other files in the folder (a card, a picture) stay.

    Args:
        model: a `TaskModel`.
        folder: path. Made if need be.
        metadata: JSON types, kept in metadata.json beside what is added here: `parameters`, `files`.
        embeddings_dtype: "float16", or "int8", half of that: each row of an embedding is rounded to 255 even steps
            between plus and minus its largest number. A model that was saved so and loaded is saved so without loss.

    Returns:
        the folder.

    Raises:
        PresetError: a weight is not finite, or too large for float16; or the model has a part that is no data.
        ValueError: an unknown `embeddings_dtype`.
    """
    if embeddings_dtype not in EMBEDDINGS_DTYPES:
        raise ValueError(
            f"`embeddings_dtype` must be one of {', '.join(EMBEDDINGS_DTYPES)}. Received {embeddings_dtype!r}."
        )
    if model.beyond_preset:
        raise PresetError(
            f"The model has {model.beyond_preset}, and a preset holds data only. Save it with "
            "`model.save('model.keras')`, which needs the code of that part again."
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as temporary:
        draft = Path(temporary)
        _write_json(draft / CONFIG_FILE, {"version": VERSION, "family": model.family, "model": model.config.to_dict()})
        if model.tokenizer is not None:
            model.tokenizer.save(draft / TOKENIZER_FOLDER)
        _write_weights(model, draft / WEIGHTS_FILE, embeddings_dtype)
        parameters = int(sum(np.prod(weight.shape, dtype=np.int64) for weight in model.weights))
        details = {**(metadata or {}), "parameters": parameters, "files": file_hashes(draft)}
        _write_json(draft / METADATA_FILE, details)
        for path in sorted(draft.rglob("*")):
            if path.is_file():
                target = folder / path.relative_to(draft)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
        for path in _unlisted(folder, details["files"]):
            path.unlink()
        if model.tokenizer is None:
            shutil.rmtree(folder / TOKENIZER_FOLDER, ignore_errors=True)
    return folder


def load(folder: str | os.PathLike, *, dtype=None, metadata_sha256: str | None = None):
    """Reads the model of a preset folder. Nothing in the folder is run.

    Args:
        folder: path.
        dtype: dtype or policy of the model; float32 by default.
        metadata_sha256: str. The hash that metadata.json must have.

    Returns:
        the `TaskModel`, with its weights; `model.metadata` is the metadata.

    Raises:
        FileNotFoundError: there is no preset in the folder.
        PresetError: a file is missing, damaged, or has another hash than the metadata says; an unknown version, family
            or key.
    """
    folder = Path(folder)
    if not (folder / CONFIG_FILE).is_file():
        raise FileNotFoundError(
            f"There is no preset in {folder}: it has no {CONFIG_FILE}. Give a folder that `zoo.save` wrote."
        )
    metadata = _checked_metadata(folder, metadata_sha256)
    values = read_json(folder / CONFIG_FILE)
    if values.get("version") != VERSION:
        raise PresetError(
            f"{folder / CONFIG_FILE} has version {values.get('version')!r}; this release reads version {VERSION}. "
            f"Update keras-attention-zoo, or save the preset again."
        )
    unknown = sorted(set(values) - {"version", "family", "model"})
    if unknown or not isinstance(values.get("model"), dict):
        what = f"the unknown key {unknown[0]!r}" if unknown else "no `model`"
        raise PresetError(f"{folder / CONFIG_FILE} has {what}. Expected version, family and model.")
    try:
        kind = family_class(values["family"])
        config = kind.config_class.from_dict(values["model"])
    except (ValueError, TypeError, KeyError) as error:
        raise PresetError(f"{folder / CONFIG_FILE}: {error}") from error
    stored = _stored_parameters(folder / WEIGHTS_FILE)
    if config.least_parameters > stored:  # before anything of that size is made
        raise PresetError(
            f"{folder / CONFIG_FILE} wants at least {config.least_parameters:,} weights, {WEIGHTS_FILE} holds "
            f"{stored:,}: it does not fit. Save the preset again."
        )
    try:
        has_tokenizer = (folder / TOKENIZER_FOLDER).is_dir()
        tokenizer = load_tokenizer(folder / TOKENIZER_FOLDER) if has_tokenizer else None
        model = kind(config, tokenizer, dtype=dtype or "float32")
    except (ValueError, FileNotFoundError) as error:
        raise PresetError(f"{folder}: {error}") from error
    _read_weights(model, folder / WEIGHTS_FILE)
    model.metadata = metadata
    return model


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder but its metadata, by path relative to it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != METADATA_FILE)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in paths}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unlisted(folder: Path, files: dict[str, str]) -> list[Path]:
    """The tokenizer's files that have no hash."""
    paths = sorted((folder / TOKENIZER_FOLDER).rglob("*"))
    return [path for path in paths if not path.is_dir() and path.relative_to(folder).as_posix() not in files]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of at most 4 MiB.

    Raises:
        PresetError: it is missing, too large, not UTF-8, not JSON or nested too deep, or not an object.
    """
    if not path.is_file():
        raise PresetError(f"{path} is missing. Copy the whole preset folder again.")
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise PresetError(
            f"{path} has {path.stat().st_size} bytes; at most {_MAX_JSON_BYTES} are read. It is no file of ours."
        )
    try:
        values = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PresetError(f"{path} is not JSON in UTF-8: {error}. Copy it again.") from error
    if not isinstance(values, dict):
        raise PresetError(f"{path} holds a {type(values).__name__}. Expected a JSON object.")
    return values


def _checked_metadata(folder: Path, expected: str | None) -> dict[str, Any]:
    """metadata.json, once it and all files that it names have the hashes that they should have."""
    path = folder / METADATA_FILE
    metadata = read_json(path)
    if expected is not None and _sha256(path) != expected:
        raise PresetError(
            f"{path} is not the file of this release: its SHA-256 differs. Reinstall keras-attention-zoo."
        )
    files = metadata.get("files")
    if not isinstance(files, dict) or CONFIG_FILE not in files or WEIGHTS_FILE not in files:
        raise PresetError(
            f"{path} names no hashes of {CONFIG_FILE} and {WEIGHTS_FILE} under `files`. Save the preset again."
        )
    for name, digest in files.items():
        part = (folder / name).resolve()
        if folder.resolve() not in part.parents:
            raise PresetError(f"{path} names a file outside of its folder: {name!r}. Do not use this preset.")
        if not part.is_file():
            raise PresetError(f"{folder / name} is missing. Copy the whole preset folder again.")
        if part.stat().st_size > _MAX_WEIGHT_BYTES or _sha256(part) != digest:
            raise PresetError(
                f"{folder / name} is not the file that metadata.json describes: its SHA-256 differs. Copy it again."
            )
    unlisted = _unlisted(folder, files)
    if unlisted:
        raise PresetError(f"{unlisted[0]} is not among the `files` of {path}. Remove it, or save the preset again.")
    return metadata


def _write_weights(model, path: Path, embeddings_dtype: str):
    from safetensors.numpy import save_file

    tensors = {}
    for weight in model.weights:
        value = np.asarray(weight.numpy())
        with np.errstate(over="ignore"):
            half = value.astype(_stored_type(weight))
        if not np.isfinite(half).all():
            raise PresetError(
                f"The weight {weight.path} has values that are not finite, or too large for float16. Train it again."
            )
        name = _weight_name(model, weight)
        if name in tensors:
            raise PresetError(f"Two weights have the path {name}. Give their layers different names.")
        if embeddings_dtype == "int8" and weight.name == "embeddings":
            tensors[name], tensors[name + _SCALE] = rounded_rows(value)
        else:
            tensors[name] = half
    save_file(tensors, path)


def rounded_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, D) as int8 from -127 to 127, and the scale of each, float32 (N,), which gives them back."""
    rows = rows.astype(np.float64)
    fraction, exponent = np.frexp(np.abs(rows).max(axis=1) / 127)
    # of 16 bits, which 127 times it still is in float32: what comes back has the same scale again
    scale = np.ldexp(np.ceil(fraction * 2**16) / 2**16, exponent).astype(np.float32)
    return np.rint(rows / np.where(scale, scale, 1)[:, None]).astype(np.int8), scale


def _stored_type(weight) -> type:
    """Half precision; whole numbers, such as the steps that were counted, stay whole."""
    return np.int32 if np.issubdtype(weight.numpy().dtype, np.integer) else np.float16


def _weight_name(model, weight) -> str:
    """The path of a weight, whatever name was given to the model."""
    prefix = f"{model.name}/"
    return f"{model.family}/{weight.path.removeprefix(prefix)}" if weight.path.startswith(prefix) else weight.path


def _stored_parameters(path: Path) -> int:
    """How many weights a file holds, by its head alone."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return sum(int(np.prod(file.get_slice(name).get_shape(), dtype=np.int64)) for name in file.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise PresetError(f"{path} is damaged: {error}. Copy it again.") from error


def _read_weights(model, path: Path):
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise PresetError(f"{path} is damaged: {error}. Copy it again.") from error
    wanted = {_weight_name(model, weight): weight for weight in model.weights}
    rounded = [name for name in wanted if name in tensors and name + _SCALE in tensors]
    for name in rounded:
        tensors[name] = _from_rounded(path, name, tensors[name], tensors.pop(name + _SCALE))
    different = sorted(set(wanted) ^ set(tensors))
    if different:
        raise PresetError(
            f"{path} does not fit its {CONFIG_FILE}: {different[0]} is in one of the two only. Save the preset again."
        )
    for name, weight in wanted.items():
        if tensors[name].shape != tuple(weight.shape):
            raise PresetError(
                f"{path} does not fit its {CONFIG_FILE}: {name} has shape {tensors[name].shape}, the model wants "
                f"{tuple(weight.shape)}. Save the preset again."
            )
        stored = np.dtype(np.float32 if name in rounded else _stored_type(weight))
        if tensors[name].dtype != stored or not np.isfinite(tensors[name]).all():
            raise PresetError(f"{path}: {name} must hold finite {stored.name} numbers only. Save the preset again.")
        weight.assign(tensors[name].astype(weight.numpy().dtype))


def _from_rounded(path: Path, name: str, rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What `rounded_rows` rounded, float32 (N, D)."""
    if rows.dtype != np.int8 or rows.ndim != 2 or scale.dtype != np.float32 or scale.shape != rows.shape[:1]:
        raise PresetError(
            f"{path}: {name} must be int8 (N, D) where there is {name + _SCALE}, and that float32 (N,). Received "
            f"{rows.dtype.name} {rows.shape} and {scale.dtype.name} {scale.shape}. Save the preset again."
        )
    return rows * scale[:, None]


def _write_json(path: Path, values: dict[str, Any]):
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")

"""Checkpoints: one safetensors file for the whole state of a training, written so that a kill never leaves half of one.

The file holds every variable under a stable, unique name, and in its metadata the rest of the state as JSON. It is
written beside its final name, flushed to the disk and then renamed.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

logger = logging.getLogger(__name__)

FORMAT = "keras-attention-checkpoint-1"
_NAME = re.compile(r"^checkpoint-(\d{8,})\.safetensors$")

_SEED_GENERATOR = re.compile(r"seed_generator_\d+")


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that does not fit the training that wants it."""


class Checkpoints:
    """The checkpoints of one run folder.

    Args:
        folder: path. Made when the first checkpoint is written.
        keep: int >= 1. How many stay; older ones are deleted after a new one is safe.
    """

    def __init__(self, folder: str | Path, keep: int = 3):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received {keep}. Say how many checkpoints may stay.")
        self.folder = Path(folder)
        self.keep = keep

    def paths(self) -> list[Path]:
        """All finished checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        numbered = [(int(match[1]), path) for path in self.folder.iterdir() if (match := _NAME.match(path.name))]
        return [path for _, path in sorted(numbered)]

    def save(self, step: int, variables: Mapping[str, Any], state: dict[str, Any]) -> Path:
        """Writes the checkpoint of a step and deletes those that are too old."""
        path = self.folder / f"checkpoint-{step:08d}.safetensors"
        write_tensors(path, read_variables(variables), {"format": FORMAT, "state": json.dumps(state)})
        for old in self.paths()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def newest(self) -> tuple[dict[str, np.ndarray], dict[str, Any], Path] | None:
        """(tensors, state, path) of the newest checkpoint that can be read; None where there is no checkpoint at all.

        Raises:
            CheckpointError: there are checkpoints, and none can be read.
        """
        paths = self.paths()
        for path in reversed(paths):
            try:
                tensors, metadata = read_tensors(path)
                if metadata.get("format") != FORMAT:
                    raise CheckpointError(f"its format is {metadata.get('format')!r}. Expected {FORMAT!r}.")
                return tensors, json.loads(metadata["state"]), path
            except (CheckpointError, KeyError, json.JSONDecodeError) as error:
                logger.warning("%s cannot be read (%s): trying the one before it.", path.name, error)
        if paths:
            raise CheckpointError(
                f"None of the {len(paths)} checkpoints in {self.folder} can be read. Expected at least one whole file; "
                "start in a new run folder, or delete them to start this one anew."
            )
        return None


def unique_names(variables: Iterable[Any], prefix: str) -> dict[str, Any]:
    """Names variables by their paths below a prefix; the second one of a path gets `#2`, and so on, in their order."""
    named: dict[str, Any] = {}
    seen: dict[str, int] = {}
    for variable in variables:
        # Keras numbers seed generators over the whole process; their order in the model is what stays the same.
        path = f"{prefix}/{_SEED_GENERATOR.sub('seed_generator', getattr(variable, 'path', variable.name))}"
        seen[path] = seen.get(path, 0) + 1
        named[path if seen[path] == 1 else f"{path}#{seen[path]}"] = variable
    return named


def read_variables(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The values of named variables as arrays."""
    return {name: as_array(variable) for name, variable in variables.items()}


def as_array(variable: Any) -> np.ndarray:
    """The value of a Keras or TensorFlow variable (of its first copy where it is mirrored)."""
    native = variable.value if isinstance(variable, keras.Variable) else variable
    return np.array(native.numpy(), order="C")  # an array even where TensorFlow gives a NumPy scalar


def assign_variables(variables: Mapping[str, Any], tensors: Mapping[str, np.ndarray], where: str) -> None:
    """Gives variables the values of a file; checks all names and shapes before it touches the first one.

    Raises:
        CheckpointError: names are missing or left over, or shapes differ.
    """
    missing, extra = sorted(variables.keys() - tensors.keys()), sorted(tensors.keys() - variables.keys())
    if missing or extra:
        raise CheckpointError(
            f"{where} does not fit this training: {_listed(missing)} missing, {_listed(extra)} left over. Expected the "
            "variables of the same model and optimizer; use the recipe of that run, or a new run folder."
        )
    for name, variable in variables.items():
        if tuple(variable.shape) != tensors[name].shape:
            raise CheckpointError(
                f"{where}: {name!r} has shape {tensors[name].shape}. Expected {tuple(variable.shape)}; use the recipe "
                "of that run, or a new run folder."
            )
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{len(names)} ({shown})" if names else "none"


def write_tensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Writes a safetensors file that is either whole or not there."""
    write_bytes(path, serialize(tensors, metadata))


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file that is either whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Makes a rename in a folder durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mean_tensors(paths: Sequence[Path], names: Sequence[str]) -> list[np.ndarray]:
    """The mean of named tensors over several files, in float64 on the way."""
    sums: list[np.ndarray] = []
    for path in paths:
        tensors, _ = read_tensors(path)
        values = [tensors[name].astype(np.float64) for name in names]
        sums = [total + value for total, value in zip(sums, values, strict=True)] if sums else values
    return [(total / len(paths)).astype(np.float32) for total in sums]


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(tensors, metadata) of a safetensors file.

    Raises:
        CheckpointError: the file is missing, cut short or not one of these.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} is damaged ({error}). Expected a whole file; use an older one.") from error


def remove_leftovers(folder: Path) -> None:
    """Deletes the temporary files of a run that was killed while it wrote."""
    for path in folder.glob(".checkpoint-*.tmp"):
        path.unlink(missing_ok=True)

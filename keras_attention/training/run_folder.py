"""The folder of one training: its recipe, checkpoints, event files and the best model as a preset."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import keras

from keras_attention.training import checkpoints
from keras_attention.training.recipe import Recipe


class RunFolder:
    """`recipe.yaml`, `checkpoints/`, `tensorboard/`, and `best/`: the best model, which `zoo.load` opens.

    Args:
        path: path of the folder; made when something is written.
        keep: int. How many checkpoints stay.
    """

    def __init__(self, path: str | Path, keep: int):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"The run folder {self.path} is a file. Expected a folder or a new name; choose another.")
        self.checkpoints = checkpoints.Checkpoints(self.path / "checkpoints", keep)
        self.best = self.path / "best"
        self.tensorboard = self.path / "tensorboard"
        self._best_weights = self.path / "checkpoints" / "best.safetensors"

    def prepare(self, recipe: Recipe, fresh: bool) -> None:
        """Clears what a kill may have left, and earlier results where the training is to start over."""
        self._recover_best()
        checkpoints.remove_leftovers(self.checkpoints.folder)
        if fresh:
            for path in self.checkpoints.paths():
                path.unlink()
            self._best_weights.unlink(missing_ok=True)
            for folder in (self.best, self.tensorboard):
                shutil.rmtree(folder, ignore_errors=True)
        checkpoints.write_bytes(self.path / "recipe.yaml", recipe.to_yaml().encode())

    def save_best(self, model: keras.Model, save: Callable[[Path], None]) -> None:
        """Replaces the best model: its preset, written by `save(folder)`, and its weights in full precision."""
        fresh = self.path / f".best.{os.getpid()}.tmp"
        shutil.rmtree(fresh, ignore_errors=True)
        save(fresh)
        # A folder cannot replace another in one move; `_recover_best` mends a kill between the two.
        if self.best.exists():
            shutil.rmtree(self._previous, ignore_errors=True)
            os.replace(self.best, self._previous)
        os.replace(fresh, self.best)
        checkpoints.flush_folder(self.path)
        shutil.rmtree(self._previous, ignore_errors=True)
        weights = checkpoints.unique_names(model.weights, "model")
        checkpoints.write_tensors(self._best_weights, checkpoints.read_variables(weights), {})

    def load_best(self, model: keras.Model) -> None:
        """Gives the model the best weights."""
        tensors, _ = checkpoints.read_tensors(self._best_weights)
        checkpoints.assign_variables(checkpoints.unique_names(model.weights, "model"), tensors, self._best_weights.name)

    @property
    def _previous(self) -> Path:
        return self.path / ".best.previous"

    def _recover_best(self) -> None:
        if not self.best.exists() and self._previous.exists():
            os.replace(self._previous, self.best)
        for leftover in self.path.glob(".best.*"):
            shutil.rmtree(leftover, ignore_errors=True)

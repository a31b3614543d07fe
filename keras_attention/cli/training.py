"""`keras-attention train`: finds the recipe and the devices."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from keras_attention.cli.errors import Failure, Misuse
from keras_attention.resources import data_folder
from keras_attention.training.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

SUFFIXES = (".yaml", ".yml")


def find_recipe(name: str) -> Recipe:
    """The recipe of a file, of a preset or run folder, or the one that comes with the library under this name.

    Raises:
        FileNotFoundError: there is no such file, or no recipe in the folder.
        Failure: there is no recipe of this name, or its content is wrong.
    """
    path = Path(name)
    if not path.is_file():
        bundled = {one.stem: one for one in sorted(data_folder("training").glob("*.yaml"))}
        if (path / "recipe.yaml").is_file():
            path = path / "recipe.yaml"
        elif name in bundled:
            path = bundled[name]
        elif path.is_dir():
            raise FileNotFoundError(f"There is no recipe.yaml in {name}. Give the file of a recipe.")
        elif path.suffix not in SUFFIXES and len(path.parts) == 1:
            near = difflib.get_close_matches(name, bundled, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise Failure(f"There is no recipe {name!r}. {hint}Expected one of {', '.join(bundled)}, or a YAML file.")
    try:
        return Recipe.from_yaml(path)
    except TypeError as error:
        raise Failure(str(error)) from error


def overridden(recipe: Recipe, settings: list[str]) -> Recipe:
    """The recipe with the values of `--set`; a setting that does not fit is `Misuse`."""
    try:
        return recipe.override(settings)
    except (ValueError, TypeError) as error:
        raise Misuse(f"train: --set: {error}") from error


def make_strategy(name: str) -> tf.distribute.Strategy | None:
    """The strategy of this name; None for a single device. To be called before TensorFlow has done anything else."""
    import tensorflow as tf

    if name == "multi-worker":
        if "worker" not in json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}):
            raise Failure(
                "--strategy multi-worker needs the environment variable TF_CONFIG with the addresses of the workers "
                "under cluster.worker. Set it for each worker, or use --strategy mirrored on one machine."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    several = len(tf.config.list_physical_devices("GPU")) > 1
    return tf.distribute.MirroredStrategy() if name == "mirrored" or (name == "auto" and several) else None

"""Opens models with TensorFlow's start-up messages kept off the terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_attention.models import TaskModel


def prepare() -> None:
    """Imports TensorFlow quietly, and has Keras take it as its backend, as models need."""
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "tensorflow"
    if "tensorflow" in sys.modules:
        return
    # Its libraries write some lines before they have read the level; a user who asked for messages gets these too.
    quiet = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "3"
    with _held_back() if quiet else contextlib.nullcontext():
        import absl.logging
        import tensorflow  # noqa: F401
    if quiet:
        absl.logging.set_verbosity(absl.logging.ERROR)
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


def load(entry: str) -> TaskModel:
    """The model of an entry or a folder; an unknown one is told before TensorFlow is imported."""
    from keras_attention import zoo

    zoo.find(entry)
    prepare()
    return zoo.load(entry)


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """What is written to the process' stderr comes out only if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as restored:
        before = os.dup(2)
        restored.callback(os.close, before)
        restored.callback(os.dup2, before, 2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except ImportError:
            os.dup2(before, 2)
            held.seek(0)
            with os.fdopen(os.dup(2), "wb") as stderr:
                shutil.copyfileobj(held, stderr)
            raise

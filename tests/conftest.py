"""Shared by all tests: quiet TensorFlow, the same seed for each test, no state left over from the test before."""

from __future__ import annotations

import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest

SEED = 20150407


@pytest.fixture(autouse=True)
def fresh_state():
    """Seeds everything; afterwards puts Keras' global state back. Tests without Keras do not pay for its import."""
    random.seed(SEED)
    np.random.seed(SEED)
    before = None
    if "keras" in sys.modules:
        import keras

        keras.utils.clear_session(free_memory=False)  # collecting garbage takes longer than most tests
        if keras.backend.backend() == "tensorflow":  # elsewhere this call would import TensorFlow
            keras.utils.set_random_seed(SEED)
        before = (keras.config.dtype_policy(), keras.config.floatx())
    yield
    if before:
        keras.config.set_dtype_policy(before[0])
        keras.config.set_floatx(before[1])


@pytest.fixture(scope="session", autouse=True)
def other_backends_import_no_tensorflow():
    """Red at the end of a run on another backend if something imported TensorFlow."""
    yield
    keras = sys.modules.get("keras")
    if keras is not None and keras.backend.backend() != "tensorflow":
        assert "tensorflow" not in sys.modules, f"KERAS_BACKEND={keras.backend.backend()} imported TensorFlow"

"""Shared by all tests: quiet TensorFlow, the same seed for each test, no state left over from the test before."""

from __future__ import annotations

import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
    # The layers must work where there is no TensorFlow: importing it fails. (Keras itself imports what is installed.)
    sys.modules["tensorflow"] = None
# On JAX the tests compile many small functions and run each a few times.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import hypothesis
import numpy as np
import pytest

from tests.shared_data import LOOK_UPS

if not os.environ.get("CI"):  # where that is set, hypothesis takes a profile of its own: no deadline, the same examples
    hypothesis.settings.register_profile("shared_machine", deadline=None)
    hypothesis.settings.load_profile("shared_machine")

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
        keras.utils.set_random_seed(SEED)
        before = (keras.config.dtype_policy(), keras.config.floatx())
    yield
    if before:
        keras.config.set_dtype_policy(before[0])
        keras.config.set_floatx(before[1])


def pytest_sessionfinish(session):
    """With `-n`, each worker tells the controller how many look-ups of real data sets it made."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["look_ups"] = dict(LOOK_UPS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for outcome, count in getattr(node, "workeroutput", {}).get("look_ups", {}).items():
        LOOK_UPS[outcome] += count


def pytest_terminal_summary(terminalreporter):
    """Says how many tests had the real data sets that they want."""
    terminalreporter.write_line(
        f"real data sets: {LOOK_UPS['found']} look-ups found theirs, {LOOK_UPS['absent']} did not"
    )

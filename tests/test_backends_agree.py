"""TensorFlow, JAX and PyTorch compute the same: outputs, weights and gradients of every attention layer, to 1e-5."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.backends import tensorflow_only
from tests.layers.compositions import CASES
from tests.layers.conformance import TABLE

# Each backend has a process of its own: once, in the run on TensorFlow, is enough.
pytestmark = [tensorflow_only, pytest.mark.slow, pytest.mark.ci, pytest.mark.xdist_group("backends")]
ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("tensorflow", "jax", "torch")
PAIRS = list(itertools.combinations(BACKENDS, 2))


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Backend → {"<row or case>/<what>": array}, of those that are installed."""
    folder = tmp_path_factory.mktemp("backends")
    processes = {}
    for backend in BACKENDS:
        if importlib.util.find_spec(backend) is None:
            continue
        command = [sys.executable, "-m", "tests.backend_program", str(folder / f"{backend}.npz")]
        environment = {**os.environ, "KERAS_BACKEND": backend}
        processes[backend] = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    for backend, process in processes.items():
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, f"{backend}: {errors}"
    return {backend: dict(np.load(folder / f"{backend}.npz")) for backend in processes}


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
@pytest.mark.parametrize("name", [one.name for one in [*TABLE, *CASES]])
def test_two_backends_agree(name, pair, computed):
    for backend in pair:
        if backend not in computed:
            pytest.skip(f"{backend} is not installed; the extra `backends` brings it")
    one, other = (
        {key: array for key, array in computed[backend].items() if key.startswith(f"{name}/")} for backend in pair
    )
    assert one.keys() == other.keys() and len(one) >= 2
    for key, expected in one.items():
        assert np.isfinite(expected).all(), key
        bound = 1e-5 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(other[key], expected, rtol=0, atol=bound, err_msg=key)

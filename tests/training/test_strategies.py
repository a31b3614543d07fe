"""One device, two replicas and two workers train alike. Devices are set up once a process: hence programs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("strategy_program.py")


def start(folder: Path, kind: str, accumulate: int = 1, **environment: str) -> subprocess.Popen:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", **environment}
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), kind, f"training.accumulate={accumulate}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables,
    )  # fmt: skip


def finish(process: subprocess.Popen) -> dict:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(output.splitlines()[-1])


def assert_equal(found: dict, expected: dict) -> None:
    assert len(found["losses"]) == len(expected["losses"]) == 24
    for name in ("losses", "norms", "validation"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
    # Adam divides by the root of the second moment: a rounding error of a small gradient grows.
    np.testing.assert_allclose(found["kernel"], expected["kernel"], atol=1e-4)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_replicas_give_the_losses_of_one_device(tmp_path, accumulate):
    one, two = (start(tmp_path / kind, kind, accumulate) for kind in ("default", "mirrored"))
    assert_equal(finish(two), finish(one))


@pytest.mark.slow
def test_two_workers_give_the_losses_of_one_device_and_one_of_them_writes(tmp_path):
    ports = [free_port(), free_port()]
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    workers = [
        start(
            tmp_path / "workers",
            "workers",
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in (0, 1)
    ]
    try:
        chief, other = (finish(worker) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
    one = finish(start(tmp_path / "default", "default"))
    assert_equal(chief, one)
    assert_equal(other, one)
    assert other["kernel"] == chief["kernel"]  # the best weights, which one wrote and the other read
    assert chief["writes"] and not other["writes"]
    assert (tmp_path / "workers" / "best" / "metadata.json").is_file()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

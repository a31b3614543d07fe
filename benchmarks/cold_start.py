"""Cold start of the command: seconds from the shell's call to its end, each in a new process.

    python benchmarks/cold_start.py

A process that imports TensorFlow and does nothing stands beside `run`, as the floor that no user of TensorFlow gets
below.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 5


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main():
    command = str(Path(sys.executable).with_name("keras-attention"))
    calls = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "keras-attention list": [command, "list"],
        "python -c 'import tensorflow, keras'": [sys.executable, "-c", "import tensorflow, keras"],
        "keras-attention run nmt_luong TEXT": [command, "run", "nmt_luong", "Where is the library?"],
        "the same, --beam 1": [command, "run", "nmt_luong", "Where is the library?", "--beam", "1"],
    }
    taken = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    for name, values in taken.items():
        print(f"{name:40} {statistics.median(values):6.2f} s  ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()

"""Where tests find the real data sets, which are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# how many look-ups found their data set, and how many did not: printed at the end of a test run
LOOK_UPS = {"found": 0, "absent": 0}
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Path of a data file or folder, e.g. "tatoeba-anki/fra.txt.gz"; skips the test when it is not there.

    Looked for in the folder that KERAS_ATTENTION_DATA names, else in ../shared/data beside the checkout.
    """
    folder = Path(os.environ.get("KERAS_ATTENTION_DATA") or DEFAULT_FOLDER)
    path = folder / name
    LOOK_UPS["found" if path.exists() else "absent"] += 1
    if not path.exists():
        pytest.skip(f"data set {name!r} is not in {folder}; set KERAS_ATTENTION_DATA to the folder that has it")
    return path

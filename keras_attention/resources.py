"""Finds the content folders `zoo/` and `training/`, wherever the library was installed from."""

from __future__ import annotations

from pathlib import Path

CONTENT_FOLDERS = ("zoo", "training")


def data_folder(name: str) -> Path:
    """The folder of presets ("zoo") or of recipes ("training").

    In a checkout (also one installed with `pip install -e`) it stands beside the package; a wheel carries it inside,
    as `_data/`.

    Raises:
        ValueError: `name` is not a content folder.
        FileNotFoundError: the installation is incomplete.
    """
    if name not in CONTENT_FOLDERS:
        raise ValueError(f"Unknown content folder {name!r}. Expected one of {', '.join(CONTENT_FOLDERS)}.")
    package = Path(__file__).resolve().parent
    bundled = package / "_data" / name
    beside = package.parent / name
    is_checkout = (package.parent / "setup.py").is_file() and beside.is_dir()
    folder = beside if is_checkout else bundled
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The installation carries no {name!r} folder (looked for {folder}). Reinstall keras-attention-zoo."
        )
    return folder

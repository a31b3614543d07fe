"""The SHA-256 of the metadata of each preset that comes with the library; that file holds the hashes of all the others.

After a change below `zoo/`, `python -m keras_attention.preset_hashes` writes the table again.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

METADATA_SHA256: dict[str, str] = {
    "classify_hierarchical": "05a693e2b9c8e7476a514a6d0e3c014340833d2fa897ebeb1af5ee4d1081ebeb",
    "classify_hierarchical.bbc": "ff96c3cae93c977aaa6695e77879ee1fcdaa1eba37884fa04955af853a0b71d3",
    "classify_multidim": "183923810995c9b31e17d3d06564f6d1ecc34d6775d060bbaec9938c24c0f671",
    "classify_multidim.polarity": "bb4e647c4a774453e0e94bbd31f5d8729843a4360a7af493b6e40200f1282cd1",
    "classify_multidim.trec": "4f782351d924db2248f2e67fac0eadc48cc3d499ba2aa99c7f9161c7d3ace4f0",
    "nmt_luong": "0a9c4153773852603be3d5a9ac3578a590a99869085a595e05c2396608554fe2",
    "nmt_luong.multi30k": "bdfd952f764ebe88626dcb0767097365a9f6dace32b1330984f6a854c5535207",
    "nmt_transformer": "4288e65283ccd4be3aed2ae72b5c8b8fe40410fb9380d83fbda34ceed108c04f",
}


def computed(zoo_folder: Path) -> dict[str, str]:
    """The table as it should be for the presets in a folder."""
    paths = (path for path in sorted(zoo_folder.glob("*/metadata.json")) if not path.parent.name.startswith(("_", ".")))
    return {path.parent.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def rewritten(source: str, table: dict[str, str]) -> str:
    """The source of this module with another table."""
    lines = "".join(f'    "{name}": "{digest}",\n' for name, digest in sorted(table.items()))
    whole = f"METADATA_SHA256: dict[str, str] = {{\n{lines}}}\n" if table else "METADATA_SHA256: dict[str, str] = {}\n"
    return re.sub(r"^METADATA_SHA256: .*?\}\n", lambda _: whole, source, count=1, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    from keras_attention.resources import data_folder

    found = computed(data_folder("zoo"))
    Path(__file__).write_text(rewritten(Path(__file__).read_text("utf-8"), found), "utf-8")
    print(f"{len(found)} presets: {', '.join(found) or 'none'}")

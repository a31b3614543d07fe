"""The SHA-256 of the metadata of each preset that comes with the library; that file holds the hashes of all the others.

After a change below `zoo/`, `python -m keras_attention.preset_hashes` writes the table again.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

METADATA_SHA256: dict[str, str] = {
    "classify_hierarchical": "254dccc7e445bfcd88d35f9856e1f0eb30c5fcf16c3fc1635c2912044a7e7a6c",
    "classify_hierarchical.bbc": "034578eed3f00cbdee20bbb332df936d368688f0a9b1faf48d1cce31bb443513",
    "classify_multidim": "18737a0ac38991c9eef73b2e53ed38ddeafa13ec2c01579d760a3e432214f730",
    "classify_multidim.polarity": "bb4e647c4a774453e0e94bbd31f5d8729843a4360a7af493b6e40200f1282cd1",
    "classify_multidim.trec": "4f782351d924db2248f2e67fac0eadc48cc3d499ba2aa99c7f9161c7d3ace4f0",
    "cloze_aoa": "2709d70a1b10b26e0fc05d2b5a01afed4702475cd719ba1d0fc24a9c1b002448",
    "entail_decomposable": "d2e8acef7e81c019852257b4041aa565df22e331fe043ada732dd59c86de05f7",
    "entail_decomposable.sick": "bb604665ee160f864045726d2edefa62d8c3e84e041c7a487977445ca6f71688",
    "entail_decomposable.wordbyword": "2d92a4eb7682ce0f149ef75c25e3716f6cf7de590cbd35193bec0982052390d6",
    "nmt_bahdanau": "932bd390fadf1f29197d6699b0838ab472e1ce41585b6e502f2595743b5dc40c",
    "nmt_hard": "19a00134cda6567d2155ee5b7d2c136f369259fa9f66af87b38197fd00da7ece",
    "nmt_local": "5b6065796e9d01913f277e69a2e637e55dccb71be00b1203baa247c8cc9607b5",
    "nmt_local.monotonic": "195b54de30bc044d0647d890bd8a289285f6c13572c9e780e3cf37d075c5e5db",
    "nmt_luong": "0a9c4153773852603be3d5a9ac3578a590a99869085a595e05c2396608554fe2",
    "nmt_luong.multi30k": "57c1e48e6577b9ccb1c329b254e7d7d8fe93442cec34c87fb2fc574464c7802f",
    "nmt_seq2seq": "9868a8cce0040efcf5ee64e96b194989559b1ef87bc78430a7a33e8cf97952e4",
    "nmt_transformer": "4288e65283ccd4be3aed2ae72b5c8b8fe40410fb9380d83fbda34ceed108c04f",
    "qa_memn2n": "a973d0ffd6195c7359485be5a46d40f7937fc4bf79ea4a7bf50b92ce2f2ad973",
    "relate_attention": "d9728427bde44d55de1e458016f054a4acff0d31a5e3522e7063bbf3d81bcce3",
    "tag_selfattention": "732ea964440795335fb4805398356383a98ffced11811427aec46d0a77475bfa",
    "tag_selfattention.ner": "7390643f9c74f75cd3f62cb32c1554e7c66e4b256498334886e566d4403edc67",
    "tag_selfattention.pos": "db20511dec9e4d959bb2a45a2f66ce97c132d06fbd43299a8b7208b2e68b75d9",
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

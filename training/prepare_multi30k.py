"""Makes the files that the Multi30k recipes read, a JSON object a line, from the parallel files of the data set.

    python training/prepare_multi30k.py --raw multi30k --out multi30k_jsonl

Takes `{train,val,test_2016_flickr,test_2017_flickr,test_2017_mscoco}.{en,de}.gz`, raw sentences, line for line, and
writes `train.jsonl`, `valid.jsonl` and one `test_….jsonl` each: `{"source": English, "target": German}`. Nothing is
dropped or changed (one German caption holds a tab, so that TSV would not do).
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

PARTS = {
    "train": "train",
    "val": "valid",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
}


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for part, name in PARTS.items():
        english, german = (read_lines(options.raw / f"{part}.{language}.gz") for language in ("en", "de"))
        if len(english) != len(german):
            raise SystemExit(f"{part}: {len(english)} English lines, {len(german)} German ones: not parallel.")
        pairs = [{"source": one, "target": other} for one, other in zip(english, german, strict=True)]
        lines = [json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs]
        (options.out / f"{name}.jsonl").write_text("".join(lines), "utf-8")
        print(f"{name}.jsonl: {len(lines)} pairs")


if __name__ == "__main__":
    main()

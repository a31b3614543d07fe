"""Writes SICK or the development and test sets of SNLI as JSONL for the recipes `entail_decomposable*`.

    python training/prepare_entailment.py --sick DIR --out sick_jsonl
    python training/prepare_entailment.py --snli DIR --out snli_jsonl

The folder of SICK has SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt; that of SNLI s1, s2 and labels, each
as .dev and .test. Each may be plain or .gz. Writes train.jsonl, valid.jsonl and test.jsonl: objects with premise,
hypothesis and label. Of SNLI, train.jsonl and valid.jsonl are its development set, cut so that no premise is in both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_attention.maps.files import write_atomically
from keras_attention.training.readers import DataError, read_examples, read_lines

COLUMNS = ("premise", "hypothesis", "label")
SICK = {"train": "SICK_train.txt", "valid": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
SICK_HEADER = ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"]
VALID_SHARE = 10  # one premise of so many is in valid.jsonl


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--sick", type=Path, metavar="DIR", help="folder of SICK")
    which.add_argument("--snli", type=Path, metavar="DIR", help="folder of the development and test sets of SNLI")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.jsonl, valid.jsonl and test.jsonl")
    options = parser.parse_args(arguments)
    try:
        parts = sick(options.sick) if options.sick else snli(options.snli)
        options.out.mkdir(parents=True, exist_ok=True)
        for name, examples in parts.items():
            lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in examples)
            write_atomically(options.out / f"{name}.jsonl", lines.encode())
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, examples in parts.items():
        print(f"{name}: {len(examples)} pairs, {len({one['premise'] for one in examples})} distinct premises")
    return 0


def sick(folder: Path) -> dict[str, list[dict[str, str]]]:
    return {part: list(_sick_rows(_found(folder, name))) for part, name in SICK.items()}


def _sick_rows(path: Path) -> Iterator[dict[str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        values = line.split("\t")
        if len(values) != len(SICK_HEADER) or (number == 1 and values != SICK_HEADER):
            raise DataError(f"{path}:{number}: {line[:60]!r} has not the columns {', '.join(SICK_HEADER)}.")
        if number > 1:
            yield {"premise": values[1], "hypothesis": values[2], "label": values[4].lower()}


def snli(folder: Path) -> dict[str, list[dict[str, str]]]:
    parts: dict[str, list[dict[str, str]]] = {"train": [], "valid": [], "test": []}
    for part in ("dev", "test"):
        files = [_found(folder, f"{name}.{part}") for name in ("s1", "s2", "labels")]
        for example in read_examples(files, columns=COLUMNS, format="parallel"):
            example = {column: text.strip() for column, text in example.items()}
            parts[part if part == "test" else _side(example["premise"])].append(example)
    return parts


def _side(premise: str) -> str:
    """The part of a premise, "valid" for one of `VALID_SHARE`, whatever the order of the lines."""
    number = int.from_bytes(hashlib.sha256(premise.encode()).digest()[:8])
    return "valid" if number % VALID_SHARE == 0 else "train"


def _found(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"There is no {name} or {name}.gz in {folder}. Give the folder that has it.")


if __name__ == "__main__":
    sys.exit(main())

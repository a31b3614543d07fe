"""Splits the Tatoeba English-French pairs for the recipe `nmt_luong`: 2,000 sentences to validate, 2,000 to test.

    python training/prepare_tatoeba.py --pairs fra.txt.gz --out DIR

Writes train.tsv, valid.tsv and test.tsv into DIR: English TAB French, normalised, UTF-8, one pair a line. The French
sides of an English sentence stand on lines that follow each other, and no sentence of either side is in two files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from keras_attention.training.readers import BadLines, read_examples
from keras_attention.training.splits import DEFAULT_SEED, Pair, Splits, split_pairs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs", type=Path, required=True, help="English TAB French, one pair a line; .gz is unpacked"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, valid.tsv and test.tsv")
    parser.add_argument("--valid", type=int, default=2000, help="distinct English sentences in valid.tsv (%(default)s)")
    parser.add_argument("--test", type=int, default=2000, help="distinct English sentences in test.tsv (%(default)s)")
    parser.add_argument("--seed", default=DEFAULT_SEED, help="another seed gives another split (%(default)s)")
    parser.add_argument("--skip-bad", action="store_true", help="skip and count bad lines instead of stopping")
    options = parser.parse_args(arguments)
    try:
        splits, bad_lines = prepare(options)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name in ("train", "valid", "test"):
        pairs = getattr(splits, name)
        print(f"{name}: {len(pairs)} pairs, {len({english for english, _ in pairs})} distinct English sentences")
    if bad_lines.count:
        print(f"skipped {bad_lines.count} bad lines, the first: {bad_lines.messages[0]}", file=sys.stderr)
    return 0


def prepare(options: argparse.Namespace) -> tuple[Splits, BadLines]:
    """Reads, splits and writes."""
    bad_lines = BadLines()
    examples = read_examples(
        options.pairs, columns=("source", "target"), format="tsv", skip_bad=options.skip_bad, bad_lines=bad_lines
    )
    splits = split_pairs(
        ((example["source"], example["target"]) for example in examples),
        valid=options.valid,
        test=options.test,
        seed=options.seed,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("train", "valid", "test"):
        write_pairs(options.out / f"{name}.tsv", getattr(splits, name))
    return splits, bad_lines


def write_pairs(path: Path, pairs: list[Pair]) -> None:
    """Writes the file beside its place and moves it there, so that a reader sees all of it or nothing."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{source}\t{target}\n" for source, target in pairs)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    sys.exit(main())

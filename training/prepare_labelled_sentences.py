"""Makes the files that the recipes `classify_multidim` read: one sentence TAB its label a line.

    python training/prepare_labelled_sentences.py subjectivity --raw subjectivity --out subjectivity_tsv
    python training/prepare_labelled_sentences.py polarity --raw sentence-polarity --out polarity_tsv
    python training/prepare_labelled_sentences.py trec --raw trec-qc --out trec_tsv

Takes the files of the data set (`plot.tok.gt9.5000`, `quote.tok.gt9.5000`; `rt-polarity.neg`, `rt-polarity.pos`;
`train.txt`, `test.txt`; each plain or .gz) and writes train.tsv, valid.tsv and test.tsv. Subjectivity and polarity come
without a split: a tenth of their sentences is for tests and a tenth for validation, by the hash of the sentence and a
seed. TREC keeps its 500 test questions, and 500 of its training questions are for validation.

Sentences are normalised. Those that differ in case, spaces and punctuation alone count as one: they stand in one file,
and where their labels differ, in none; of TREC's training questions, those that are among the test questions go.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import hashlib
from pathlib import Path

from keras_attention.text import normalize
from keras_attention.training.splits import DEFAULT_SEED, comparison_key

TWO_FILES = {
    "subjectivity": {"plot.tok.gt9.5000": "objective", "quote.tok.gt9.5000": "subjective"},
    "polarity": {"rt-polarity.neg": "negative", "rt-polarity.pos": "positive"},
}
Rows = list[tuple[str, str]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=(*TWO_FILES, "trec"))
    parser.add_argument("--raw", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, valid.tsv and test.tsv")
    parser.add_argument("--seed", default=DEFAULT_SEED, help="another seed gives another split (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        parts = trec(options.raw, options.seed) if options.data == "trec" else two_files(options)
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        (options.out / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows), "utf-8")
        counts = collections.Counter(label for _, label in rows)
        print(f"{name}: {len(rows)} sentences ({', '.join(f'{label} {counts[label]}' for label in sorted(counts))})")


def two_files(options: argparse.Namespace) -> dict[str, Rows]:
    """A file for each label, split by hash."""
    files = TWO_FILES[options.data]
    rows = [(text, label) for name, label in files.items() for text in read_lines(options.raw / name)]
    groups = grouped(rows)
    tenth = len(groups) // 10
    return split(groups, {"test": tenth, "valid": tenth}, options.seed)


def trec(folder: Path, seed: str) -> dict[str, Rows]:
    """`COARSE:fine question` a line, by the coarse class; the test file as it is."""
    train, test = ([coarse(line) for line in read_lines(folder / f"{part}.txt")] for part in ("train", "test"))
    known = {comparison_key(text) for text, _ in test}
    groups = {key: rows for key, rows in grouped(train).items() if key not in known}
    return {**split(groups, {"valid": 500}, seed), "test": [(normalize(text), label) for text, label in test]}


def coarse(line: str) -> tuple[str, str]:
    label, colon, rest = line.partition(":")
    _, space, question = rest.partition(" ")
    if not (label and colon and space and question.strip()):
        raise ValueError(f"Expected `COARSE:fine question`. Received the line {line[:60]!r}.")
    return question, label


def read_lines(path: Path) -> list[str]:
    """The lines of the file, or of the .gz beside its name: UTF-8 or, of TREC's training file, Latin-1."""
    data = path.read_bytes() if path.is_file() else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())
    text = data.decode("latin-1" if path.name == "train.txt" else "utf-8")
    return [line for line in text.split("\n") if line.strip()]


def grouped(rows: Rows) -> dict[str, Rows]:
    """Sentences that count as one, with one of the spellings; those with two labels are left out."""
    groups: dict[str, Rows] = {}
    for text, label in rows:
        groups.setdefault(comparison_key(text), []).append((normalize(text), label))
    kept = {key: found[:1] for key, found in groups.items() if len({label for _, label in found}) == 1}
    print(f"{len(rows)} sentences, {len(groups)} different ones, {len(groups) - len(kept)} of them with two labels")
    return kept


def split(groups: dict[str, Rows], sizes: dict[str, int], seed: str) -> dict[str, Rows]:
    """The first so many groups, in the order of their hashes, for each part; the rest is "train"."""
    order = sorted(groups, key=lambda key: hashlib.sha256(f"{seed}\n{key}".encode()).digest())
    parts: dict[str, Rows] = {}
    for name, size in sizes.items():
        parts[name], order = [row for key in order[:size] for row in groups[key]], order[size:]
    return {"train": [row for key in order for row in groups[key]], **parts}


if __name__ == "__main__":
    main()

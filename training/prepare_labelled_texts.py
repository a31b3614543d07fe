"""Makes the files that the classification recipes read, a JSON object a line: `{"text": …, "label": …}`.

    python training/prepare_labelled_texts.py subjectivity --raw subjectivity --out subjectivity_jsonl
    python training/prepare_labelled_texts.py trec --raw trec-qc --out trec_jsonl

The sets, as their authors give them away, each into `train.jsonl`, `valid.jsonl` and `test.jsonl`:

- subjectivity: quote.tok.gt9.5000 and plot.tok.gt9.5000 (Pang and Lee, 2004)
- polarity: rt-polarity.pos and rt-polarity.neg (Pang and Lee, 2005)
- trec: train.txt and test.txt, the six coarse classes (Li and Roth, 2002)
- movie_reviews: movie_reviews.jsonl (Pang and Lee, 2004); cv800 to cv899 are for validation, cv900 to cv999 the test
- bbc: bbc_news.jsonl (Greene and Cunningham, 2006)

A text that was there before, whatever its label, is dropped first. Where a set has no split of its own, of ten texts of
a label the ninth goes to validation and the tenth to the test; where it has a test, the tenth of its training texts is
for validation.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path


def lines_of(folder, name, encoding="utf-8"):
    """The lines of a file, plain or gzipped."""
    path = folder / name
    data = path.read_bytes() if path.is_file() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    return [line for line in data.decode(encoding).split("\n") if line.strip()]


def two_files(names):
    def read(folder):
        return {"": [(line.strip(), label) for label, name in names.items() for line in lines_of(folder, name)]}

    return read


def trec(folder):
    parts = {"train": lines_of(folder, "train.txt", "latin-1"), "test": lines_of(folder, "test.txt")}
    pairs = {part: [line.split(" ", 1) for line in lines] for part, lines in parts.items()}
    return {part: [(text.strip(), kind.split(":")[0]) for kind, text in found] for part, found in pairs.items()}


def documents(name):
    def read(folder):
        rows = [json.loads(line) for line in lines_of(folder, name)]
        return {"": [(row["text"], row["label"]) for row in rows]}

    return read


def movie_reviews(folder):
    rows = [json.loads(line) for line in lines_of(folder, "movie_reviews.jsonl")]
    parts = {"train": [], "valid": [], "test": []}
    for row in rows:
        fold = int(row["id"][2:5]) // 100
        parts["test" if fold == 9 else "valid" if fold == 8 else "train"].append((row["text"], row["label"]))
    return parts


SETS = {
    "subjectivity": two_files({"subjective": "quote.tok.gt9.5000", "objective": "plot.tok.gt9.5000"}),
    "polarity": two_files({"positive": "rt-polarity.pos", "negative": "rt-polarity.neg"}),
    "trec": trec,
    "movie_reviews": movie_reviews,
    "bbc": documents("bbc_news.jsonl"),
}


def distinct(parts):
    """The parts without texts that were there before; the test is looked at first, so that it stays whole."""
    seen, kept = set(), {part: [] for part in parts}
    for part in sorted(parts, key=lambda one: ("test", "valid", "train", "").index(one)):
        for text, label in parts[part]:
            key = " ".join(text.lower().split())
            if key not in seen:
                seen.add(key)
                kept[part].append((text, label))
    return kept


def split(parts):
    """Into train, valid and test, by the place of a text among those of its label; what a set has split stays so."""
    if "valid" in parts:
        return parts
    (whole,) = parts.keys() - {"test"}
    found = {"train": [], "valid": [], "test": list(parts.get("test", []))}
    counts = {}
    for text, label in parts[whole]:
        place = counts[label] = counts.get(label, -1) + 1
        part = {8: "train" if "test" in parts else "valid", 9: "valid" if "test" in parts else "test"}.get(place % 10)
        found[part or "train"].append((text, label))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    parts = SETS[options.set](options.raw)
    total = sum(map(len, parts.values()))
    parts = split(distinct(parts))
    for part, pairs in parts.items():
        rows = [json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n" for text, label in pairs]
        (options.out / f"{part}.jsonl").write_text("".join(rows), "utf-8")
        print(f"{part}.jsonl: {len(rows)} texts")
    print(f"{total - sum(map(len, parts.values()))} of {total} were there before")


if __name__ == "__main__":
    main()

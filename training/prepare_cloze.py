"""Makes cloze questions of books of Project Gutenberg, for the recipe `cloze_aoa`: no book is in two files.

    python training/prepare_cloze.py --books gutenberg-children --tags en_ewt-ud-train.conllu.gz --out DIR

Writes train.jsonl, valid.jsonl and test.jsonl into DIR, in the form of `keras_attention.training.make_cloze`. The books
are NUMBER.txt or NUMBER.txt.gz. Parts of speech come from a list of words and their most frequent tag in a file of
Universal Dependencies, and for other words from their end and their first letter; with --tagger from an entry of the
zoo.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_attention.training.cloze import make_cloze, split_sentences, split_words
from keras_attention.training.conll import read_conll

VALID, TEST = ("289",), ("1874", "501")
_BODY = re.compile(r"\*\*\* ?START OF.*?\*\*\*(.*)\*\*\* ?END OF", re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", type=Path, required=True, help="folder of NUMBER.txt or NUMBER.txt.gz")
    parser.add_argument("--tags", type=Path, help="CoNLL-U file from which parts of speech are learnt")
    parser.add_argument("--tagger", help="entry of the zoo, or folder of a preset, that tags words instead")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.jsonl, valid.jsonl and test.jsonl")
    parser.add_argument("--valid", nargs="+", default=VALID, help="numbers of the books to validate with (%(default)s)")
    parser.add_argument("--test", nargs="+", default=TEST, help="numbers of the books to test with (%(default)s)")
    parser.add_argument("--valid-step", type=int, default=1, help="of so many sentences one is asked in validation")
    options = parser.parse_args(arguments)
    if (options.tags is None) == (options.tagger is None):
        parser.error("give either --tags or --tagger")
    try:
        prepare(options)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(options: argparse.Namespace) -> None:
    books = {path.name.split(".")[0]: path for path in sorted(options.books.glob("*.txt*"))}
    missing = [name for name in (*options.valid, *options.test) if name not in books]
    if missing:
        raise ValueError(f"{options.books} has no book {missing[0]}. Expected {missing[0]}.txt or .txt.gz there.")
    alone = None if options.tagger else lexicon_tagger(options.tags)
    tagger = zoo_tagger(options.tagger) if options.tagger else lambda text: alone
    parts = {"valid": options.valid, "test": options.test}
    parts["train"] = [name for name in books if name not in (*options.valid, *options.test)]
    options.out.mkdir(parents=True, exist_ok=True)
    for part, names in parts.items():
        step = options.valid_step if part == "valid" else 1
        texts = (body(books[name]) for name in names)
        questions = itertools.chain.from_iterable(make_cloze(text, tagger(text), step=step) for text in texts)
        kinds: Counter[str] = Counter()
        with open(options.out / f"{part}.jsonl", "w", encoding="utf-8", newline="\n") as stream:
            for one in questions:
                kinds[one["kind"]] += 1
                stream.write(json.dumps(one, ensure_ascii=False) + "\n")
        print(f"{part}: {len(names)} books, {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}")


def body(path: Path) -> str:
    """The text of a book between the marks of Project Gutenberg."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").replace("\r\n", "\n")
    found = _BODY.search(text)
    if not found:
        raise ValueError(
            f"{path} has no *** START OF … *** and *** END OF … ***. Expected a book of Project Gutenberg."
        )
    return found[1]


def lexicon_tagger(path: Path) -> Callable[[Sequence[str]], list[str]]:
    """Tags each word for itself: by what it is most often in a file of Universal Dependencies."""
    counts: dict[str, Counter] = defaultdict(Counter)
    ends: dict[str, Counter] = defaultdict(Counter)
    for sentence in read_conll(path, columns={"words": 1, "tags": 3}, id_column=0):
        for word, tag in zip(sentence["words"], sentence["tags"], strict=True):
            counts[word.lower()][tag] += 1
            ends[word.lower()[-3:]][tag] += 1
    known = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    by_end = {end: found.most_common(1)[0][0] for end, found in ends.items()}

    def one(place: int, word: str) -> str:
        lower = word.lower()
        is_name = word[0].isupper() and place > 0 and known.get(lower, "NOUN") in ("NOUN", "PROPN")
        if is_name:
            return "PROPN"
        guess = known.get(lower, "PROPN" if word[0].isupper() else by_end.get(lower[-3:], "NOUN"))
        return "NOUN" if guess == "PROPN" and word[0].islower() else guess

    return lambda words: [one(place, word) for place, word in enumerate(words)]


def zoo_tagger(name: str) -> Callable[[str], Callable[[Sequence[str]], list[str]]]:
    """The tagger of an entry, for texts whose sentences it tags together: a text → words to tags.

    What is longer than the model reads is tagged part by part.
    """
    from keras_attention import zoo

    model = zoo.load(name)
    most = model.config.max_length

    def of_text(text: str) -> Callable[[Sequence[str]], list[str]]:
        sentences = [words for words in map(split_words, split_sentences(text)) if words]
        parts = [
            (place, {"words": words[start : start + most]})
            for place, words in enumerate(sentences)
            for start in range(0, len(words), most)
        ]
        tags: list[list[str]] = [[] for _ in sentences]
        for (place, _), one in zip(parts, model.run([part for _, part in parts], attention=False), strict=True):
            tags[place] += [tag for _, tag in one.output]
        found = dict(zip(map(tuple, sentences), tags, strict=True))
        return lambda words: found[tuple(words)]

    return of_text


if __name__ == "__main__":
    sys.exit(main())

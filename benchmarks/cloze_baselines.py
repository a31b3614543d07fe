"""What a reader of cloze questions must beat: the most frequent candidate, and a language model of a window of words.

    python benchmarks/cloze_baselines.py --train cloze/train.jsonl --valid cloze/valid.jsonl --test cloze/test.jsonl

Hill et al., 2016 (arXiv 1511.02301), section 4: "maximum frequency (context)", the candidate that the document has
most often, and an n-gram language model, here of trigrams in which each order is mixed with the next lower one; with a
cache, n-grams of the document itself count too. The shares of the mixture are chosen on the validation questions.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
from collections.abc import Iterator, Sequence

BLANK = "XXXXX"
CACHES = (0.0, 1.0, 5.0, 20.0)  # how often an n-gram of the document counts
SHARES = ((0.6, 0.3), (0.4, 0.4), (0.2, 0.5))  # of trigrams and of bigrams; most of what is left is of words


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ("train", "valid", "test"):
        parser.add_argument(f"--{part}", required=True, help="JSONL of `prepare_cloze.py`")
    options = parser.parse_args(arguments)
    valid, test = [*read(options.valid)], [*read(options.test)]
    report("most frequent candidate", [most_frequent(one) for one in test], test)
    counts = count(sentences(read(options.train)))
    for name, caches in (("window", CACHES[:1]), ("window with cache", CACHES[1:])):
        cache, shares = max(
            itertools.product(caches, SHARES),
            key=lambda setting: accuracy([likeliest(one, counts, *setting) for one in valid], valid),
        )
        found = [likeliest(one, counts, cache, shares) for one in test]
        report(f"{name} (cache {cache:g}, shares {shares})", found, test)


def read(path: str) -> Iterator[dict]:
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            yield {name: value if name == "kind" else value.lower() for name, value in json.loads(line).items()}


def sentences(examples: Iterator[dict]) -> Iterator[list[str]]:
    """The sentences asked about, once each, with their answers; and the context of every 20th question."""
    seen = set()
    for place, one in enumerate(examples):
        filled = one["query"].replace(BLANK.lower(), one["answer"])
        if filled not in seen:
            seen.add(filled)
            yield filled.split()
        if place % 20 == 0:
            yield one["document"].split()


def count(texts) -> collections.Counter:
    """How often each word, pair and triple stands in texts; the empty tuple counts all words."""
    found: collections.Counter = collections.Counter()
    for words in texts:
        padded = ["<s>", "<s>", *words, "</s>", "</s>"]
        for place in range(2, len(padded)):
            for size in range(4):
                found[tuple(padded[place - size + 1 : place + 1]) if size else ()] += 1
    return found


def most_frequent(example: dict) -> str:
    """The candidate that the document has most often; of several the first."""
    counts = collections.Counter(example["document"].split())
    return max(example["candidates"].split("|"), key=lambda word: counts[word])


def likeliest(example: dict, counts, cache: float, shares: tuple[float, float]) -> str:
    """The candidate with which the window of two words on either side is likeliest."""
    own = count([example["document"].split()]) if cache else collections.Counter()
    words = ["<s>", "<s>", *example["query"].split(), "</s>", "</s>"]
    gap = words.index(BLANK.lower())

    def seen(ngram):
        return counts[ngram] + cache * own[ngram]

    def probability(before, word):
        trigram, bigram = shares
        left = 1 - trigram - bigram
        total = (0.95 * left * seen((word,)) + 0.05 * left) / (seen(()) + 1)
        for share, ngram in ((bigram, before[1:]), (trigram, before)):
            if (times := seen(ngram)) > 0:
                total += share * seen((*ngram, word)) / times
        return total

    def score(candidate):
        filled = [*words[:gap], candidate, *words[gap + 1 :]]
        return sum(math.log(probability(tuple(filled[at - 2 : at]), filled[at])) for at in range(gap, gap + 3))

    return max(example["candidates"].split("|"), key=score)


def accuracy(found: Sequence[str], examples: Sequence[dict]) -> float:
    return 100 * sum(one == example["answer"] for one, example in zip(found, examples, strict=True)) / len(examples)


def report(name: str, found: Sequence[str], examples: Sequence[dict]) -> None:
    parts = [f"accuracy {accuracy(found, examples):.2f}"]
    for kind in sorted({one["kind"] for one in examples}):
        pairs = [pair for pair in zip(found, examples, strict=True) if pair[1]["kind"] == kind]
        parts.append(f"{kind} {accuracy(*zip(*pairs, strict=True)):.2f} ({len(pairs)})")
    print(f"{name}: {', '.join(parts)}")


if __name__ == "__main__":
    main()

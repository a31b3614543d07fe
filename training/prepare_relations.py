"""Splits the training file of SemEval-2010 task 8 for the recipes `relate_attention*`: every tenth sentence validates.

    python training/prepare_relations.py --train TRAIN_FILE.TXT.gz --vectors glove.6B.50d.txt --out DIR

Writes train.txt and valid.txt into DIR, in the format of the task: a sentence goes to valid.txt when its number is a
multiple of ten. TEST_FILE_FULL.TXT is read as it is. With --vectors also a tokenizer, DIR/tokenizer, of the words that
are twice in train.txt, or once and have a vector: what has none is learnt from two examples at least.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from keras_attention.maps.files import write_atomically
from keras_attention.models import RelationModel
from keras_attention.text import WordTokenizer, WordVectors
from keras_attention.training.relations import read_relations

EVERY = 10
MOST_WORDS = 100_000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="TRAIN_FILE.TXT, plain or .gz")
    parser.add_argument("--vectors", type=Path, help="word vectors, as GloVe or word2vec write them")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.txt and valid.txt")
    options = parser.parse_args(arguments)
    try:
        examples = list(read_relations(options.train))
        options.out.mkdir(parents=True, exist_ok=True)
        parts = {
            "train": [one for one in examples if one["id"] % EVERY],
            "valid": [one for one in examples if one["id"] % EVERY == 0],
        }
        for name, rows in parts.items():
            text = "".join(f'{one["id"]}\t"{one["text"]}"\n{one["label"]}\nComment:\n\n' for one in rows)
            write_atomically(options.out / f"{name}.txt", text.encode())
        if options.vectors:
            tokenizer = vocabulary(parts["train"], WordVectors.load(options.vectors))
            tokenizer.save(options.out / "tokenizer")
            print(f"tokenizer: {tokenizer.vocabulary_size} words")
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, rows in parts.items():
        print(f"{name}: {len(rows)} sentences")
    return 0


def vocabulary(examples: list[dict], vectors: WordVectors) -> WordTokenizer:
    """The words that are twice in the examples, or once and have a vector."""
    options = {"mask_digits": True}
    twice, once = (
        RelationModel.learn_tokenizer(examples, "word", MOST_WORDS, min_count=count, **options) for count in (2, 1)
    )
    words = twice.tokens(range(4, twice.vocabulary_size))
    known = set(words)
    rare = [word for word in once.tokens(range(4, once.vocabulary_size)) if word not in known]
    return WordTokenizer.from_words([*words, *sorted(set(rare) & set(vectors.words))], **options)


if __name__ == "__main__":
    sys.exit(main())

"""What a linear model of a bag of words reaches on a labelled set: TF-IDF and logistic regression, by scikit-learn.

    python -m benchmarks.linear_baseline --data movie_reviews_jsonl --entry classify_hierarchical

Words alone or with pairs, the rarest words that are kept, and the strength of the regularisation are chosen on the
validation split among `GRID`; the test split is used once, for the best of them. With `--entry` the zoo's model is run
on the same texts, and both are compared by paired bootstrap.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from keras_attention import zoo
from keras_attention.training.label_metrics import label_scores, paired_accuracy
from keras_attention.training.readers import read_examples

GRID = {"ngram_range": ((1, 1), (1, 2)), "min_df": (1, 2, 4), "C": (1.0, 10.0, 100.0)}


def read(path):
    examples = list(read_examples([path], columns=("text", "label")))
    return tuple(one["text"] for one in examples), [one["label"] for one in examples]


@functools.lru_cache(maxsize=1)
def bags(texts, others, ngram_range, min_df):
    """The texts as bags of words, of which `texts` decides which there are."""
    words = TfidfVectorizer(
        ngram_range=ngram_range, min_df=min_df, sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]"
    )
    known = words.fit_transform(texts)
    return known, [words.transform(more) for more in others]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with train, valid and test.jsonl.")
    parser.add_argument("--entry", help="Zoo entry or preset folder to compare with.")
    options = parser.parse_args()
    train, valid, test = (read(options.data / f"{part}.jsonl") for part in ("train", "valid", "test"))
    best, best_share = None, -1.0
    for *words, strength in itertools.product(*GRID.values()):
        known, (validated, tested) = bags(train[0], (valid[0], test[0]), *words)
        model = LogisticRegression(C=strength, max_iter=2000).fit(known, train[1])
        share = model.score(validated, valid[1])
        if share > best_share:
            best, best_share, shares = (*words, strength), share, model.predict_proba(tested)
    chosen = model.classes_[shares.argmax(axis=1)]
    scores = label_scores(test[1], chosen.tolist(), shares, model.classes_.tolist())
    print(f"chosen on validation ({100 * best_share:.1f}): {dict(zip(GRID, best, strict=True))}")
    print("test: " + "  ".join(f"{name} {value:.2f}" for name, value in scores.items()))
    if options.entry:
        outputs = [one.output for one in zoo.load(options.entry).run(test[0], attention=False)]
        right = chosen == np.array(test[1])
        ours = np.array(outputs) == np.array(test[1])
        print(f"{options.entry} (b) against the linear model (a): {paired_accuracy(right, ours)}")


if __name__ == "__main__":
    main()

"""What a linear model of a bag of words reaches on a labelled set: TF-IDF and logistic regression, by scikit-learn.

    python -m benchmarks.linear_baseline --data movie_reviews_jsonl --entry classify_hierarchical

Words alone or with pairs, the rarest words that are kept, and the strength of the regularisation are chosen on the
validation split among `GRID`; the test split is used once, for the best of them. With `--entry` the zoo's model is run
on the same texts, and both are compared by paired bootstrap.
"""

from __future__ import annotations

import argparse
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
    return [one["text"] for one in examples], [one["label"] for one in examples]


def fitted(texts, labels, ngram_range, min_df, C):
    words = TfidfVectorizer(
        ngram_range=ngram_range, min_df=min_df, sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]"
    )
    model = LogisticRegression(C=C, max_iter=2000).fit(words.fit_transform(texts), labels)
    return lambda more: model.predict_proba(words.transform(more)), list(model.classes_)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with train, valid and test.jsonl.")
    parser.add_argument("--entry", help="Zoo entry or preset folder to compare with.")
    options = parser.parse_args()
    train, valid, test = (read(options.data / f"{part}.jsonl") for part in ("train", "valid", "test"))
    found = {}
    for setting in itertools.product(*GRID.values()):
        probabilities, labels = fitted(*train, *setting)
        chosen = np.array(labels)[probabilities(valid[0]).argmax(axis=1)]
        found[setting] = float(np.mean(chosen == np.array(valid[1])))
    best = max(found, key=found.get)
    probabilities, labels = fitted(*train, *best)
    shares = probabilities(test[0])
    chosen = np.array(labels)[shares.argmax(axis=1)]
    scores = label_scores(test[1], chosen.tolist(), shares, labels)
    print(f"chosen on validation ({100 * found[best]:.1f}): {dict(zip(GRID, best, strict=True))}")
    print("test: " + "  ".join(f"{name} {value:.2f}" for name, value in scores.items()))
    if options.entry:
        outputs = [one.output for one in zoo.load(options.entry).run(test[0], attention=False)]
        right = chosen == np.array(test[1])
        ours = np.array(outputs) == np.array(test[1])
        print(f"{options.entry} (b) against the linear model (a): {paired_accuracy(right, ours)}")


if __name__ == "__main__":
    main()

"""Is one model that gives labels better than another on the same examples, or is it chance? Paired bootstrap.

    python -m benchmarks.compare_labels --a runs/entail_bag.sick --b runs/entail_decomposable.sick --data test.jsonl
    python -m benchmarks.compare_labels --a A --b B --data TEST_FILE_FULL.TXT.gz --format relations --score macro_f1

Both models read the same file. `--score` is "accuracy", or "macro_f1", that of SemEval-2010, task 8. Prints both
scores, their difference (b minus a) and the p-value of `training.label_metrics.paired_bootstrap`.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from keras_attention import zoo
from keras_attention.training.formats import read_data
from keras_attention.training.label_metrics import paired_accuracy, paired_bootstrap, predict_and_score
from keras_attention.training.tag_metrics import semeval2010_macro_f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", required=True, help="the model to beat: an entry, preset or run folder")
    parser.add_argument("--b", required=True, help="the other")
    parser.add_argument("--data", required=True, nargs="+", help="examples with labels")
    parser.add_argument("--format", default="", help="format of the data; default: by the suffix")
    parser.add_argument("--score", choices=("accuracy", "macro_f1"), default="accuracy")
    parser.add_argument("--samples", type=int, default=1000, help="test sets to draw (%(default)s)")
    options = parser.parse_args()
    gold, found = np.array([]), []
    for name in (options.a, options.b):
        model = zoo.load(name)
        examples = read_data(options.data, columns=model.columns, format=options.format)
        _, labels, predicted = predict_and_score(model, examples)
        gold = np.array(labels)
        found.append(np.array(predicted))
    print(json.dumps(compare(gold, *found, options.score, options.samples)))


def compare(gold, a, b, score: str, samples: int) -> dict[str, float]:
    """Labels (N,) of gold and of both models → what `paired_bootstrap` says, and "examples"."""
    if score == "accuracy":
        result = paired_accuracy(gold == a, gold == b, samples=samples)
    else:
        result = paired_bootstrap(
            lambda places: tuple(semeval2010_macro_f1(gold[places], one[places]) for one in (a, b)), len(gold), samples
        )
    return {**result, "examples": len(gold)}


if __name__ == "__main__":
    main()

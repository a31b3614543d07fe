r"""What the penalty of structured self-attention does to its rows: how much they look at the same words.

    python -m benchmarks.row_overlap --data subjectivity_jsonl/test.jsonl --picture docs/images/row_overlap.png \
      "no penalty=runs/no_penalty" "penalty=zoo/classify_multidim"

For each model, the mean over the texts of `‖AAᵀ − I‖²_F` (Lin et al., 2017, equation 8) and of the cosine between two
different rows; 0 where no word is looked at by both. The picture shows the rows of each model on one sentence.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_attention import zoo
from keras_attention.training.readers import read_examples

SENTENCE = "the director shoots a hollow , self-indulgent film that never finds its heart"


def overlaps(rows):
    """The penalty, and the mean cosine of two different rows, of weights (r, T)."""
    rows = np.asarray(rows, np.float64)
    penalty = np.square(rows @ rows.T - np.eye(len(rows))).sum()
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = directions @ directions.T
    return penalty, cosines[~np.eye(len(rows), dtype=bool)].mean()


def draw(models, path):
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(models), 1, figsize=(9, 1.1 * len(models) + 1.6), layout="constrained")
    for axis, (name, model) in zip(axes, models.items(), strict=True):
        seen = model.run(SENTENCE).attention[0]
        axis.imshow(seen.weights, cmap="Reds", vmin=0, vmax=1, aspect="auto")
        axis.set_yticks(range(len(seen.rows)), seen.rows)
        axis.set_title(name, loc="left", fontsize=10)
        last = axis is axes[-1]
        axis.set_xticks(range(len(seen.columns)), seen.columns if last else [""] * len(seen.columns), rotation=45)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=PRESET")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    texts = [one["text"] for one in read_examples([options.data], columns=("text", "label"))]
    models = {}
    for pair in options.models:
        name, _, path = pair.rpartition("=")
        models[name or path] = zoo.load(path)
    for name, model in models.items():
        found = [overlaps(one.attention[0].weights) for one in model.run(texts)]
        penalty, cosine = np.mean(found, axis=0)
        print(f"{name}: penalty {penalty:.2f}, cosine {cosine:.3f}, over {len(found)} texts")
    if options.picture:
        draw(models, options.picture)


if __name__ == "__main__":
    main()

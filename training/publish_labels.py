r"""Makes a bundled preset of a trained model that labels, tags or answers: calibrates it, scores it, writes its card.

    python training/publish_labels.py classify_multidim --run runs/classify_multidim --valid valid.jsonl \
      --test test.jsonl --against "max pooling=runs/max" --against "no penalty=runs/no_penalty"

The temperature of the probabilities is chosen on the validation split; the test split only reports. Each `--against` is
another run, scored on the same test and compared by paired bootstrap. The card's prose stands in
the YAML head of `training/cards/<entry>.md`, and where it goes in `training/cards/_labels.md`, with `{names}` of what
is measured here; the licence of the weights is `training/cards/<entry>.LICENSE`. Afterwards
`python -m keras_attention.preset_hashes` records the new hashes.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import json
import math
import os
import re
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from publish import HERE, card_parts, named_path

from keras_attention import zoo
from keras_attention.training import label_metrics, scoring, tag_scores
from keras_attention.training.formats import read_data
from keras_attention.training.tag_metrics import semeval2010_macro_f1

CALIBRATION = (
    "ece is the expected calibration error (Guo et al., 2017; 15 bins), after the logits were divided by {}, which was "
    "chosen on validation."
)
BOOTSTRAP = (
    "p is of a paired bootstrap with 1,000 draws of the test examples: that a difference of this size comes by chance."
)


def examples_of(model, path):
    """The examples of a file, or of those of a pattern such as `qa*_test.txt`, in the format of the model's recipe."""
    data = model.metadata["recipe"]["data"]
    paths = sorted(glob.glob(str(path))) if "*" in str(path) else [path]
    columns = data["columns"] or model.columns
    return list(read_data(paths, columns=columns, format=data["format"], **data["options"]))


def inputs_of(model, examples):
    names = [name for name in (*model.columns[:-1], "predicate") if name in examples[0]]
    return [{name: one[name] for name in names} for one in examples]


def calibrated(model, valid, folder, embeddings_dtype):
    """The model with the temperature that suits the validation split, from the preset in `folder`."""
    if hasattr(model.config, "temperature"):
        predictions = model.run(inputs_of(model, valid), attention=False)
        shares = [one.extra["probabilities"] for one in predictions]
        probabilities = np.zeros((len(shares), max(map(len, shares))))  # of cloze questions each has its own words
        for row, found in zip(probabilities, shares, strict=True):
            row[: len(found)] = [*found.values()]
        places = [[*found].index(one[model.columns[-1]]) for found, one in zip(shares, valid, strict=True)]
        found = label_metrics.best_temperature(np.log(np.maximum(probabilities, 1e-30)), places)
        model.config = dataclasses.replace(model.config, temperature=round(found * model.config.temperature, 3))
    return zoo.load(zoo.save(model, folder, model.metadata, embeddings_dtype=embeddings_dtype))


def outputs_of(model, examples):
    """What a model says, in a form in which two models are compared."""
    found = [one.output for one in model.run(inputs_of(model, examples), attention=False)]
    return [[tag for _, tag in one] for one in found] if model.task == "tagging" else found


def compared(model, examples, ours, theirs):
    """Paired bootstrap of the task's main figure: theirs is A, ours B."""
    gold = [one["tags" if model.task == "tagging" else model.columns[-1]] for one in examples]
    if model.task == "tagging":
        return tag_scores.paired_scores(gold, theirs, ours, model.config.scheme)
    if model.task == "relation":
        rows = np.array([gold, theirs, ours])

        def score(places):
            one, other, mine = rows[:, places].tolist()
            return semeval2010_macro_f1(one, other), semeval2010_macro_f1(one, mine)

        return label_metrics.paired_bootstrap(score, len(gold))
    right = [[one == other for one, other in zip(gold, outputs, strict=True)] for outputs in (theirs, ours)]
    return label_metrics.paired_accuracy(*right)


def table(rows):
    """A Markdown table; the first row is its head."""
    head, *rows = rows
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def numbers(scores):
    return {name: value for name, value in scores.items() if isinstance(value, (int, float))}


def scores_table(scores):
    """One row a split, one column a figure that is no time and no count."""
    names = [name for name in numbers(next(iter(scores.values()))) if name not in ("examples", "seconds")]
    names = [name for name in names if not name.startswith("task_")]
    rows = [["split", "examples", *names]]
    for split, found in scores.items():
        rows.append([split, found["examples"], *[f"{found[name]:.2f}" for name in names]])
    first = next(iter(scores.values()))
    tasks = [name for name in first if name.startswith("task_")]
    if not tasks:
        return table(rows)
    errors = [[name.removeprefix("task_") for name in tasks], [f"{first[name]:.1f}" for name in tasks]]
    return f"{table(rows)}\n\nThe error of each task on the test:\n\n{table(errors)}"


def comparison(model, metric, examples, ours, others):
    """Rows of the card's table of comparisons, and the same as metadata."""
    rows, kept = [["model", metric, "difference", "p"]], {}
    for name, path in others:
        other = zoo.load(path)
        theirs = outputs_of(other, examples)
        found = compared(model, examples, ours, theirs)
        kept[name] = {**found, "parameters": other.metadata["parameters"]}
        rows.append([name, f"{found['a']:.1f}", f"{found['difference']:+.1f}", f"{found['p_value']:.3f}"])
        print(f"against {name}: {found}", flush=True)
    return table(rows) if kept else "", kept


def sample_rows(model, samples):
    rows = [["input", "output", "score"]]
    for sample, one in zip(samples, model.run(samples), strict=True):
        given = " / ".join(map(str, sample.values())) if isinstance(sample, dict) else sample
        output = one.output if isinstance(one.output, str) else " ".join("/".join(pair) for pair in one.output)
        cells = [text.replace("|", "\\|").replace("\n", " ") for text in (given[:160], output)]
        rows.append([*cells, f"{one.score:.2f}"])
    return table(rows)


def draw(prediction, folder):
    if prediction.attention:
        shown = prediction.attention[-1] if hasattr(prediction.attention[0], "sentences") else prediction.attention[0]
        output = prediction.output if isinstance(prediction.output, str) else ""
        shown.plot(folder / "attention.png", title=output)
        if hasattr(prediction.attention[0], "sentences"):
            prediction.attention[0].html(folder / "attention.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--valid", required=True, metavar="FILE")
    parser.add_argument("--test", type=named_path, action="append", required=True, metavar="[NAME=]FILE")
    parser.add_argument("--against", type=named_path, action="append", default=[], metavar="NAME=RUN")
    parser.add_argument(
        "--embeddings", choices=("int8", "float16"), default="int8", help="how they are kept (%(default)s)"
    )
    parser.add_argument("--zoo", type=Path, default=HERE.parent / "zoo")
    options = parser.parse_args()
    head, body, _ = card_parts(options.entry)
    folder = options.zoo / options.entry
    model = zoo.load(options.run)
    valid = examples_of(model, options.valid)
    model = calibrated(model, valid, folder, options.embeddings)
    tests = {name: examples_of(model, path) for name, path in options.test}
    scores = {name: scoring.evaluate(model, examples) for name, examples in tests.items()}
    scores["validation"] = scoring.evaluate(model, valid)
    first = next(iter(tests))
    ours = outputs_of(model, tests[first])
    compared_rows, kept = comparison(model, head["metric"], tests[first], ours, options.against)
    training, recipe = model.metadata["training"], model.metadata["recipe"]
    metadata = {
        "task": model.task,
        **{name: head[name] for name in ("description", "weights_license", "samples")},
        "headline": f"{head['metric'].replace('_', ' ')} {scores[first][head['metric']]:.1f} ({head['test_set']})",
        "scores": {name: {key: one[key] for key in one if key != "seconds"} for name, one in scores.items()},
        "comparisons": kept,
        "training": training,
        "recipe": recipe,
    }
    json.dumps(metadata, allow_nan=False)
    zoo.save(model, folder, metadata, embeddings_dtype=options.embeddings)
    model = zoo.load(folder)
    draw(model.run(head["picture"]), folder)
    shutil.copyfile(HERE / "cards" / f"{options.entry}.LICENSE", folder / "LICENSE")
    size = (folder / "model.safetensors").stat().st_size
    named = {
        **{key: head[key] for key in ("summary", "call", "limits", "licence", "vectors")},
        "entry": options.entry,
        "splits": scores_table(scores),
        "comparisons": compared_rows and f"{compared_rows}\n\n{BOOTSTRAP}",
        "samples": sample_rows(model, head["samples"]),
        "parameters": f"{model.metadata['parameters'] / 1e6:.2f} M",
        "minutes": f"{math.ceil(10 * training['minutes']) / 10:g}",
        "steps": f"{training['steps']:,}",
        "seed": recipe["training"]["seed"],
        "calibration": CALIBRATION.format(model.config.temperature) if "ece" in scores[first] else "",
        "size": f"{size / 2**20:.2f} MiB",
        **{key: f"{value:.1f}" for key, value in numbers(scores[first]).items()},
    }
    card = re.sub(r" +\n", "\n", body.lstrip("\n").format(**named))
    (folder / "README.md").write_text(re.sub(r"\n{3,}", "\n\n", card), "utf-8")  # where nothing was compared
    print(f"{folder}: {metadata['headline']}, weights {named['size']}")
    print(named["splits"])


if __name__ == "__main__":
    main()

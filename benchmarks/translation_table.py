"""What each attention mechanism buys: all Multi30k models of the zoo side by side, on the same sentences.

    python training/prepare_multi30k.py --raw multi30k --out multi30k_jsonl
    python -m benchmarks.translation_table --data multi30k_jsonl
    python -m benchmarks.translation_table --data multi30k_jsonl --picture docs/images/four_mechanisms.png

Every model searches with the beam and length penalty of its card. BLEU is lowercased and tokenised, as papers about
Multi30k report it; by length it is over the three test sets together, in words of the English side. Milliseconds are
the median of single sentences, one after the other. Entropy (nats) is that of the rows of the decoder's weights, each
divided by its sum, the mean over heads and layers; 0 looks at one place. `p` is that of the paired bootstrap (Koehn,
2004) on test2016 against `--baseline`, on the same lowercased tokens as sacreBLEU's 13a splits them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_attention import zoo
from keras_attention.training.metrics import moses_tokens, paired_bootstrap, tokenized_bleu
from keras_attention.training.readers import read_examples

TESTS = {"test2016": "test_2016_flickr", "test2017": "test_2017_flickr", "mscoco": "test_2017_mscoco"}
LENGTHS = ((1, 9), (10, 13), (14, 99))
TIMED, MAPPED = 50, 200
PICTURE = {
    "soft": "nmt_luong.multi30k",
    "local": "nmt_local",
    "hard": "nmt_hard",
    "multi-head": "nmt_transformer",
}
SENTENCE = "A young girl in a red dress is throwing a ball to her brown dog."


class Split:
    """Sources, references, and the references' tokens."""

    def __init__(self, path: Path):
        examples = list(read_examples([path], columns=("source", "target")))
        self.sources = [one["source"] for one in examples]
        self.tokens = [[moses_tokens(one["target"], "de")] for one in examples]


def bleu(outputs, tokens):
    return tokenized_bleu(outputs, tokens, "de")["tokenized_bleu"]


def entropy(model, sources):
    """Mean entropy of the rows of the decoder's attention, in nats; None without attention."""
    rows = []
    for one in model.translate(sources, beam_size=1):
        for shown in one.attention:
            weights = shown.weights.reshape(-1, shown.weights.shape[-1])
            weights = weights[weights.sum(-1) > 0]
            weights = weights / weights.sum(-1, keepdims=True)
            rows.extend(-(weights * np.log(np.maximum(weights, 1e-12))).sum(-1))
    return float(np.mean(rows)) if rows else None


def milliseconds(model, sources):
    model.translate(sources[0], attention=False)
    seconds = []
    for source in sources:
        start = time.perf_counter()
        model.translate(source, attention=False)
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def measured(model, splits):
    """The figures of a model, but for its time, and its outputs on each split."""
    outputs = {
        name: [one.output for one in model.run(split.sources, attention=False)] for name, split in splits.items()
    }
    found = {"parameters": model.metadata["parameters"], "minutes": model.metadata["training"]["minutes"]}
    found.update({name: bleu(outputs[name], split.tokens) for name, split in splits.items()})
    pairs = [
        (source, output, tokens)
        for name, split in splits.items()
        for source, output, tokens in zip(split.sources, outputs[name], split.tokens, strict=True)
    ]
    for low, high in LENGTHS:
        chosen = [pair for pair in pairs if low <= len(pair[0].split()) <= high]
        found[f"{low}–{high}"] = bleu([pair[1] for pair in chosen], [pair[2] for pair in chosen])
    found["entropy"] = entropy(model, next(iter(splits.values())).sources[:MAPPED])
    return found, outputs


def p_value(outputs, baseline, split):
    """That of a difference on one split, in lowercased tokens."""
    ours, theirs = ([moses_tokens(text, "de") for text in side] for side in (outputs, baseline))
    return paired_bootstrap(theirs, ours, split.tokens)["bleu"]["p_value"]


def print_table(entries, baseline, splits):
    found, outputs = {}, {}
    models = {entry: zoo.load(entry) for entry in dict.fromkeys((baseline, *entries))}
    sources = next(iter(splits.values())).sources[:TIMED]
    times = {entry: milliseconds(model, sources) for entry, model in models.items()}  # first, on a quiet machine
    print("timed", file=sys.stderr, flush=True)
    for entry, model in models.items():
        found[entry], outputs[entry] = measured(model, splits)
        print(f"measured {entry}", file=sys.stderr, flush=True)
    spans = [f"{low}–{high}" if high < 99 else f"{low} or more" for low, high in LENGTHS]
    head = ["model", "parameters", *splits, "p", *(f"{span} words" for span in spans), "minutes", "ms", "entropy"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    first = next(iter(splits))
    for entry in entries:
        one = found[entry]
        chance = None if entry == baseline else p_value(outputs[entry][first], outputs[baseline][first], splits[first])
        cells = [
            f"`{entry}`",
            f"{one['parameters'] / 1e6:.1f} M",
            *(f"{one[name]:.1f}" for name in splits),
            "" if chance is None else f"{chance:.3f}",
            *(f"{one[f'{low}–{high}']:.1f}" for low, high in LENGTHS),
            f"{one['minutes']:.0f}",
            f"{times[entry]:.0f}",
            "" if one["entropy"] is None else f"{one['entropy']:.2f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def draw(path):
    """The maps of four mechanisms for one sentence, as one picture."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    known = {name: entry for name, entry in PICTURE.items() if entry in zoo.names()}
    figure, panels = pyplot.subplots(
        1, len(known), figsize=(5.2 * len(known), 5.6), layout="constrained", squeeze=False
    )
    for axes, (name, entry) in zip(panels[0], known.items(), strict=True):
        shown = zoo.load(entry).translate(SENTENCE, beam_size=1).attention[-1]
        if shown.axes:
            shown = shown.select(**dict.fromkeys(shown.axes, "mean"))
        axes.imshow(shown.weights, cmap="Reds", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(shown.columns)), list(shown.columns), rotation=90, fontsize=8)
        axes.set_yticks(range(len(shown.rows)), list(shown.rows), fontsize=8)
        axes.set_title(f"{name}  ({entry})", fontsize=10)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that training/prepare_multi30k.py wrote")
    parser.add_argument("--entry", action="append", help="one or several; default: all that translate into German")
    parser.add_argument("--baseline", default="nmt_luong.multi30k")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.picture:
        draw(options.picture)
    if options.data:
        german = [one.name for one in zoo.list() if one.task == "translation" and "German" in one.description]
        splits = {name: Split(options.data / f"{file}.jsonl") for name, file in TESTS.items()}
        print_table(options.entry or german, options.baseline, splits)


if __name__ == "__main__":
    main()

"""Makes a bundled preset of a trained model: scores it on the test split, draws its picture, writes its card.

    python training/publish.py nmt_luong --run runs/nmt_luong --valid tatoeba/valid.tsv --test tatoeba/test.tsv

The search settings are chosen on the validation split, among a few beam sizes and length penalties; the test split
only reports. The card's prose stands in `training/cards/<entry>.md`: a YAML head (description, weights_license,
test_set, samples, picture), then Markdown with `{names}` of what is measured here; beside it, in `<entry>.LICENSE`,
the licence of the weights. Afterwards `python -m keras_attention.preset_hashes` records the new hashes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import yaml

from keras_attention import zoo
from keras_attention.training.metrics import corpus_scores, group_references
from keras_attention.training.readers import read_examples

HERE = Path(__file__).resolve().parent
BEAMS, PENALTIES = (1, 4), (0.6, 1.0, 1.4)


def scored(model, path, **options):
    """Scores of a whole split, every source with all of its references."""
    sources, references = group_references(read_examples([path], columns=model.columns))
    fits = [place for place, text in enumerate(sources) if len(model.tokenizer.encode(text)) < model.config.max_length]
    outputs = [""] * len(sources)  # what is too long for the model counts as translated by nothing
    for place, one in zip(fits, model.run([sources[place] for place in fits], attention=False, **options), strict=True):
        outputs[place] = one.output
    return corpus_scores(model.task, outputs, references), outputs


def best_search(model, path):
    """The beam size and length penalty with the best BLEU on the validation split, and that BLEU."""
    found = {}
    for beam_size in BEAMS:
        for penalty in PENALTIES if beam_size > 1 else (0.0,):
            scores, _ = scored(model, path, beam_size=beam_size, length_penalty=penalty)
            found[beam_size, penalty] = scores
            print(f"validation, beam {beam_size}, length penalty {penalty}: BLEU {scores['bleu']:.2f}", flush=True)
    smallest_good = max(found, key=lambda key: (round(found[key]["bleu"], 1), -key[0]))
    return *smallest_good, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--zoo", type=Path, default=HERE.parent / "zoo")
    options = parser.parse_args()
    _, head, body = (HERE / "cards" / f"{options.entry}.md").read_text("utf-8").split("---\n", 2)
    head = yaml.safe_load(head)
    model = zoo.load(options.run)
    beam_size, penalty, validation = best_search(model, options.valid)
    model.config = dataclasses.replace(model.config, beam_size=beam_size, length_penalty=penalty)
    test, outputs = scored(model, options.test)
    greedy, _ = scored(model, options.test, beam_size=1)
    (options.run / "test.outputs.txt").write_text("".join(line + "\n" for line in outputs), "utf-8")
    trained = model.metadata
    metadata = {
        "task": model.task,
        "description": head["description"],
        "weights_license": head["weights_license"],
        "headline": f"BLEU {test['bleu']:.1f} ({head['test_set']})",
        "samples": head["samples"],
        "scores": {"test": test, "test_greedy": greedy, "validation": validation[beam_size, penalty]},
        "search": {"beam_size": beam_size, "length_penalty": penalty, "chosen_on": "validation"},
        "training": trained["training"],
        "recipe": trained["recipe"],
    }
    folder = zoo.save(model, options.zoo / options.entry, metadata)
    model = zoo.load(folder)
    picture = model.run(head["picture"])
    picture.attention[0].plot(folder / "attention.png", title=picture.output)
    size = (folder / "model.safetensors").stat().st_size / 2**20
    facts = {
        **{name: f"{test[name]:.1f}" for name in ("bleu", "chrf")},
        "greedy_bleu": f"{greedy['bleu']:.1f}",
        "validation_bleu": f"{validation[beam_size, penalty]['bleu']:.1f}",
        "signature": test["bleu_signature"],
        "chrf_signature": test["chrf_signature"],
        "beam_size": beam_size,
        "length_penalty": penalty,
        "parameters": f"{model.metadata['parameters'] / 1e6:.1f} M",
        "size": f"{size:.1f} MiB",
        "minutes": f"{trained['training']['minutes']:.0f}",
        "steps": f"{trained['training']['steps']:,}",
        "tokens": f"{trained['training']['target_tokens'] / 1e6:.1f} M",
        "seed": trained["recipe"]["training"]["seed"],
        "samples": "\n".join(
            f"| {text} | {one.output} |" for text, one in zip(head["samples"], model.run(head["samples"]), strict=True)
        ),
    }
    shutil.copyfile(HERE / "cards" / f"{options.entry}.LICENSE", folder / "LICENSE")
    (folder / "README.md").write_text(body.lstrip("\n").format(**facts), "utf-8")
    print(
        f"{folder}: BLEU {test['bleu']:.2f} ({test['bleu_signature']}), greedy {greedy['bleu']:.2f}, "
        f"weights {size:.1f} MiB"
    )


if __name__ == "__main__":
    main()

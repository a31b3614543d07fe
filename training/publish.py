"""Makes a bundled preset of a trained model: scores it on the test split, draws its picture, writes its card.

    python training/publish.py nmt_luong --run runs/nmt_luong --valid tatoeba/valid.tsv --test tatoeba/test.tsv
    python training/publish.py nmt_local --run runs/nmt_local --valid valid.jsonl --test test2016=a.jsonl --test …

The search settings are chosen on the validation split, among a few beam sizes and length penalties; the test splits
only report, the first of them in the headline. The card's prose stands in `training/cards/<entry>.md`: a YAML head
(description, weights_license, test_set, samples, picture), then Markdown with `{names}` of what is measured here;
beside it, in `<entry>.LICENSE`, the licence of the weights. Where many entries share their prose the head names it
(`body: multi30k`, for `_multi30k.md` and `_multi30k.LICENSE`) and adds what is its own (`summary`). With
`tokenized: de` in the head the headline is lowercased tokenised BLEU in that language.
Afterwards `python -m keras_attention.preset_hashes` records the new hashes.
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
from keras_attention.training.metrics import corpus_scores, group_references, moses_tokens, tokenized_bleu
from keras_attention.training.readers import read_examples

HERE = Path(__file__).resolve().parent
BEAMS, PENALTIES = (1, 5), (0.6, 1.0, 1.4, 1.8)


def scored(model, path, language=None, **options):
    """Scores of a whole split, every source with all of its references, and the outputs.

    With a language also lowercased tokenised BLEU by Moses' rules of that language.
    """
    sources, references = group_references(read_examples([path], columns=model.columns))
    fits = [place for place, text in enumerate(sources) if len(model.tokenizer.encode(text)) < model.config.max_length]
    outputs = [""] * len(sources)  # what is too long for the model counts as translated by nothing
    for place, one in zip(fits, model.run([sources[place] for place in fits], attention=False, **options), strict=True):
        outputs[place] = one.output
    scores = corpus_scores(model.task, outputs, references)
    if language is not None:
        tokens = [[moses_tokens(text, language) for text in texts] for texts in references]
        scores.update(tokenized_bleu(outputs, tokens, language))
    return scores, outputs


def best_search(model, path, language):
    """The beam size and length penalty with the best BLEU on the validation split, and the scores of all."""
    found = {}
    for beam_size in BEAMS:
        for penalty in PENALTIES if beam_size > 1 else (0.0,):
            scores, _ = scored(model, path, language, beam_size=beam_size, length_penalty=penalty)
            found[beam_size, penalty] = scores
            print(f"validation, beam {beam_size}, length penalty {penalty}: BLEU {scores['bleu']:.2f}", flush=True)
    smallest_good = max(found, key=lambda key: (round(found[key]["bleu"], 1), -key[0]))
    return *smallest_good, found


def card_parts(entry):
    """Head, body and licence of a card."""
    _, head, body = (HERE / "cards" / f"{entry}.md").read_text("utf-8").split("---\n", 2)
    head = yaml.safe_load(head)
    shared = head.get("body")
    if shared is not None:
        body = (HERE / "cards" / f"_{shared}.md").read_text("utf-8")
    return head, body, HERE / "cards" / (f"{entry}.LICENSE" if shared is None else f"_{shared}.LICENSE")


def row(name, scores):
    """A row of the card's table of figures."""
    return (
        f"| {name} | {scores.get('tokenized_bleu', scores['bleu']):.2f} | {scores['bleu']:.2f} | {scores['chrf']:.2f} |"
    )


def named_path(text):
    """NAME=FILE, or FILE, whose name is "test"."""
    name, _, path = text.rpartition("=")
    return name or "test", Path(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--test", type=named_path, action="append", required=True, metavar="[NAME=]FILE")
    parser.add_argument("--zoo", type=Path, default=HERE.parent / "zoo")
    options = parser.parse_args()
    head, body, licence = card_parts(options.entry)
    language = head.get("tokenized")
    model = zoo.load(options.run)
    beam_size, penalty, validation = best_search(model, options.valid, language)
    model.config = dataclasses.replace(model.config, beam_size=beam_size, length_penalty=penalty)
    tests = {}
    for name, path in options.test:
        tests[name], outputs = scored(model, path, language)
        (options.run / f"{name}.outputs.txt").write_text("".join(line + "\n" for line in outputs), "utf-8")
    first, path = options.test[0]
    test = tests[first]
    greedy, _ = scored(model, path, language, beam_size=1)
    headline = "BLEU {bleu:.1f}" if language is None else "BLEU {tokenized_bleu:.1f} lowercased, tokenised"
    trained = model.metadata
    metadata = {
        "task": model.task,
        "description": head["description"],
        "weights_license": head["weights_license"],
        "headline": f"{headline.format(**test)} ({head['test_set']})",
        "samples": head["samples"],
        "scores": {**tests, f"{first}_greedy": greedy, "validation": validation[beam_size, penalty]},
        "search": {"beam_size": beam_size, "length_penalty": penalty, "chosen_on": "validation"},
        "training": trained["training"],
        "recipe": trained["recipe"],
    }
    folder = zoo.save(model, options.zoo / options.entry, metadata)
    model = zoo.load(folder)
    picture = model.run(head["picture"])
    if picture.attention:  # a model without attention has none to draw
        picture.attention[0].plot(folder / "attention.png", title=picture.output)
    size = (folder / "model.safetensors").stat().st_size / 2**20
    splits = {
        **{f"{name}, beam {beam_size}, length penalty {penalty}": scores for name, scores in tests.items()},
        f"{first}, greedy": greedy,
        "validation, same beam": validation[beam_size, penalty],
    }
    facts = {
        **{name: f"{test[name]:.1f}" for name in ("bleu", "chrf")},
        "entry": options.entry,
        "summary": head.get("summary", ""),
        "picture_text": "![What each piece looked at](attention.png)"
        if picture.attention
        else "It has no attention to show.",
        "greedy_bleu": f"{greedy['bleu']:.1f}",
        "validation_bleu": f"{validation[beam_size, penalty]['bleu']:.1f}",
        "splits": "\n".join(
            "| {} | {:.2f} | {bleu:.2f} | {chrf:.2f} |".format(
                name, scores.get("tokenized_bleu", scores["bleu"]), **scores
            )
            for name, scores in splits.items()
        ),
        "signature": test["bleu_signature"],
        "chrf_signature": test["chrf_signature"],
        "tokenized_signature": test.get("tokenized_bleu_signature", ""),
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
    shutil.copyfile(licence, folder / "LICENSE")
    (folder / "README.md").write_text(body.lstrip("\n").format(**facts), "utf-8")
    print(f"{folder}: {metadata['headline']}, weights {size:.1f} MiB")
    for name, scores in splits.items():
        print(
            f"  {name}: " + "  ".join(f"{key} {value:.2f}" for key, value in scores.items() if isinstance(value, float))
        )


if __name__ == "__main__":
    main()

"""Makes a bundled preset of a trained model: scores it on the test split, draws its picture, writes its card.

    python training/publish.py nmt_luong --run runs/nmt_luong --valid tatoeba/valid.tsv --test tatoeba/test.tsv
    python training/publish.py nmt_local --run runs/nmt_local --valid valid.jsonl --test test2016=a.jsonl --test …

The search settings are chosen on the validation split, among a few beam sizes and length penalties; the test splits
only report, the first of them in the headline. The card's prose stands in `training/cards/<entry>.md`: a YAML head
(description, weights_license, test_set, samples, picture), then Markdown with `{names}` of what is measured here;
beside it, in `<entry>.LICENSE`, the licence of the weights. Where many entries share theirs the head names it
(`shared: multi30k`, for `_multi30k.md` and `_multi30k.LICENSE`) and adds what is its own (`summary`). With
`tokenized: de` in the head the headline is lowercased tokenised BLEU in that language. With `--seed-run` further runs
of the same recipe, from other seeds, are scored too, and mean and standard deviation reported.
Afterwards `python -m keras_attention.preset_hashes` records the new hashes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import statistics
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import yaml

from keras_attention import zoo
from keras_attention.training.metrics import corpus_scores, group_references, moses_tokens, tokenized_bleu
from keras_attention.training.readers import read_examples

HERE = Path(__file__).resolve().parent
BEAMS, PENALTIES = (1, 5), (0.6, 1.0, 1.4, 1.8)
FIGURES = ("tokenized_bleu", "bleu", "chrf")


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


def read_card(path):
    """Head and body of a card."""
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(head), body


def card_parts(entry):
    """Head, body and licence of an entry's card, with what it shares with others filled in."""
    cards = HERE / "cards"
    head, body = read_card(cards / f"{entry}.md")
    if "shared" not in head:
        return head, body, cards / f"{entry}.LICENSE"
    common, body = read_card(cards / f"_{head['shared']}.md")
    return {**common, **head}, body, cards / f"_{head['shared']}.LICENSE"


def row(name, scores):
    """A row of the card's table of figures."""
    figures = (scores.get("tokenized_bleu", scores["bleu"]), scores["bleu"], scores["chrf"])
    return f"| {name} | " + " | ".join(f"{figure:.2f}" for figure in figures) + " |"


def named_path(text):
    """NAME=FILE, or FILE, whose name is "test"."""
    name, _, path = text.rpartition("=")
    return name or "test", Path(path)


def measured(model, valid, tests, language, run):
    """Chooses the search, which becomes the model's, and scores all splits: name → scores, the headline's first."""
    beam_size, penalty, found = best_search(model, valid, language)
    model.config = dataclasses.replace(model.config, beam_size=beam_size, length_penalty=penalty)
    scores = {}
    for name, path in tests:
        scores[name], outputs = scored(model, path, language)
        (run / f"{name}.outputs.txt").write_text("".join(line + "\n" for line in outputs), "utf-8")
    first, path = tests[0]
    scores[f"{first}_greedy"], _ = scored(model, path, language, beam_size=1)
    scores["validation"] = found[beam_size, penalty]
    return scores


def over_seeds(model, scores, runs, tests, language):
    """Mean and standard deviation (n - 1) of each figure over the model and the models of other runs.

    Each searches as the model does, so that nothing is chosen on their account.

    Returns:
        dict of "seeds", a list, and of each test: figure → dict of "mean", "deviation" and "values".
    """
    seeds, found = [model.metadata["recipe"]["training"]["seed"]], {name: [scores[name]] for name, _ in tests}
    for run in runs:
        other = zoo.load(run)
        other.config = dataclasses.replace(
            other.config, beam_size=model.config.beam_size, length_penalty=model.config.length_penalty
        )
        seeds.append(other.metadata["recipe"]["training"]["seed"])
        for name, path in tests:
            found[name].append(scored(other, path, language)[0])
    if len({*seeds}) < len(seeds):
        raise SystemExit(f"The runs have the seeds {seeds}. Expected a seed for each run.")
    summary = {"seeds": seeds}
    for name, ones in found.items():
        figures = {key: [one[key] for one in ones] for key in FIGURES if key in ones[0]}
        summary[name] = {
            key: {"mean": statistics.mean(values), "deviation": statistics.stdev(values), "values": values}
            for key, values in figures.items()
        }
    return summary


def seeds_text(summary):
    """The sentence of the card about other seeds."""
    if not summary:
        return ""
    names = [name for name in summary if name != "seeds"]
    figures = [summary[name].get("tokenized_bleu") or summary[name]["bleu"] for name in names]
    told = [f"{one['mean']:.2f} ± {one['deviation']:.2f} ({name})" for name, one in zip(names, figures, strict=True)]
    seeds = ", ".join(map(str, summary["seeds"]))
    return f" Over the seeds {seeds}, mean and standard deviation of the first column: {', '.join(told)}."


def facts(entry, head, model, scores, picture):
    """What the body of a card may name."""
    training, recipe = model.metadata["training"], model.metadata["recipe"]
    test, greedy, validation = next(iter(scores.values())), *list(scores.values())[-2:]
    outputs = zip(head["samples"], model.run(head["samples"]), strict=True)
    shown = "![What each piece looked at](attention.png)" if picture.attention else "It has no attention to show."
    return {
        **{name: f"{test[name]:.1f}" for name in ("bleu", "chrf")},
        "entry": entry,
        "summary": head.get("summary", ""),
        "picture": shown,
        "greedy_bleu": f"{greedy['bleu']:.1f}",
        "validation_bleu": f"{validation['bleu']:.1f}",
        "splits": "\n".join(row(name.replace("_", ", "), one) for name, one in scores.items()),
        "signature": test["bleu_signature"],
        "chrf_signature": test["chrf_signature"],
        "tokenized_signature": test.get("tokenized_bleu_signature", ""),
        "beam_size": model.config.beam_size,
        "length_penalty": model.config.length_penalty,
        "parameters": f"{model.metadata['parameters'] / 1e6:.1f} M",
        "minutes": f"{training['minutes']:.0f}",
        "steps": f"{training['steps']:,}",
        "tokens": f"{training['target_tokens'] / 1e6:.1f} M",
        "seed": recipe["training"]["seed"],
        "seeds": seeds_text(model.metadata.get("seeds")),
        "samples": "\n".join(f"| {text} | {one.output} |" for text, one in outputs),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--test", type=named_path, action="append", required=True, metavar="[NAME=]FILE")
    parser.add_argument("--seed-run", type=Path, action="append", default=[], metavar="RUN", help="of another seed")
    parser.add_argument("--zoo", type=Path, default=HERE.parent / "zoo")
    options = parser.parse_args()
    head, body, licence = card_parts(options.entry)
    language = head.get("tokenized")
    model = zoo.load(options.run)
    scores = measured(model, options.valid, options.test, language, options.run)
    headline = "BLEU {bleu:.1f}" if language is None else "BLEU {tokenized_bleu:.1f} lowercased, tokenised"
    metadata = {
        "task": model.task,
        **{name: head[name] for name in ("description", "weights_license", "samples")},
        "headline": f"{headline.format(**next(iter(scores.values())))} ({head['test_set']})",
        "scores": scores,
        "search": {
            "beam_size": model.config.beam_size,
            "length_penalty": model.config.length_penalty,
            "chosen_on": "validation",
        },
        **{name: model.metadata[name] for name in ("training", "recipe")},
    }
    if options.seed_run:
        metadata["seeds"] = over_seeds(model, scores, options.seed_run, options.test, language)
    folder = zoo.save(model, options.zoo / options.entry, metadata)
    model = zoo.load(folder)
    picture = model.run(head["picture"])
    if picture.attention:  # a model without attention has none to draw
        picture.attention[0].plot(folder / "attention.png", title=picture.output)
    size = f"{(folder / 'model.safetensors').stat().st_size / 2**20:.1f} MiB"
    named = facts(options.entry, head, model, scores, picture)
    shutil.copyfile(licence, folder / "LICENSE")
    (folder / "README.md").write_text(body.lstrip("\n").format(size=size, **named), "utf-8")
    print(f"{folder}: {metadata['headline']}, weights {size}")
    for name, one in scores.items():
        print(f"  {name}: " + "  ".join(f"{key} {value:.2f}" for key, value in one.items() if isinstance(value, float)))


if __name__ == "__main__":
    main()

"""Writes `docs/zoo.md`, one page about all entries, from what their presets say of themselves.

    python training/zoo_page.py

A test compares the page with what this writes: run it after each `publish`.
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# family → what a person gives, the command that shows it, and what comes back
FORMS = {
    "translation": ("a sentence", 'run {entry} "…"', "a sentence; a map of its pieces over those of the input"),
    "transformer_translation": ("a sentence", 'run {entry} "…"', "a sentence; a map for each layer, with its heads"),
    "classification": ("a sentence", 'run {entry} "…"', "a label with its probability; a map of the words"),
    "hierarchical_classification": (
        "a document",
        "run {entry} --file FILE --whole",
        "a label with its probability; maps of the sentences and of the words in them",
    ),
    "entailment": (
        "a premise and a hypothesis",
        'run {entry} "…" --with "…"',
        "entailment, contradiction or neutral; maps of the words of both",
    ),
    "relation": (
        "a sentence with two marked entities",
        'run {entry} "The <e1>…</e1> of the <e2>…</e2> …"',
        "the relation and its direction; a map of the words",
    ),
    "tagging": ("words or text", 'run {entry} "…"', "a tag for each word; a map for each layer, with its heads"),
    "cloze": (
        "some twenty sentences, one with a blank, and words to choose from",
        'run {entry} "…" --with "… XXXXX …" --with "cat|dog"',
        "the word that was left out; maps of both attentions",
    ),
    "memory_question_answering": (
        "a story and a question",
        'run {entry} "…" --with "…"',
        "the answer; a map of each hop over the sentences",
    ),
}
PUBLISHED = {
    "nmt_luong": "the model of TensorFlow's tutorial on the same pieces, pairs and minutes: BLEU 37.5",
    "nmt_luong.multi30k": "published: 39.0 / 31.3",
    "nmt_bahdanau": "published: 39.0 / 31.3",
    "nmt_local": "published for global attention: 39.0 / 31.3",
    "nmt_transformer": "published: 41.0 / 33.4",
    "classify_hierarchical": "TF-IDF and logistic regression: 92.5",
    "classify_hierarchical.bbc": "TF-IDF and logistic regression: 98.6",
    "cloze_aoa": "most frequent candidate: 33.0; a language model of a window: 42.5, with the document's n-grams: 50.2",
    "entail_decomposable.sick": "bag of vectors, published: 78.9",
    "relate_attention": "published, with vectors of 100 numbers: 84.0",
    "qa_memn2n": "published, best of ten starts: mean error 12.4 %, 11 tasks failed",
}


def entries():
    """(name, config, metadata) of each preset."""
    for folder in sorted(path.parent for path in (ROOT / "zoo").glob("*/config.json")):
        config, metadata = (json.loads((folder / name).read_text("utf-8")) for name in ("config.json", "metadata.json"))
        yield folder, config, metadata


def figures(metadata):
    """The scores on the test splits, in one line a split."""
    lines = []
    for split, scores in metadata["scores"].items():
        names = ("tokenized_bleu", "bleu", "chrf", "f1", "accuracy", "macro_f1", "mean_error", "ece")
        shown = [f"{name.replace('_', ' ')} {scores[name]:.1f}" for name in names if name in scores]
        if split != "validation" and not split.endswith("_greedy"):
            lines.append(f"{split}: {', '.join(shown)}")
    return lines


def beside(name, metadata):
    """Baselines and comparisons."""
    lines = [PUBLISHED[name]] if name in PUBLISHED else []
    for other, found in metadata.get("comparisons", {}).items():
        lines.append(f"{other}: {found['a']:.1f} (difference {found['difference']:+.1f}, p {found['p_value']:.3f})")
    return lines


def section(folder, config, metadata):
    given, command, back = FORMS[config["family"]]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    training, data = metadata["training"], metadata["recipe"]["data"]
    name = folder.name
    rows = [
        ("gives", f"{given}: `keras-attention {command.format(entry=name)}`"),
        ("gets", back),
        ("test", "<br>".join(figures(metadata))),
        ("beside it", "<br>".join(beside(name, metadata)) or "nothing measured yet"),
        ("size", f"{metadata['parameters']:,} weights, {size:.1f} MB with all files"),
        ("training", f"{training['minutes']:.0f} minutes of CPU time, `training/{name}.yaml`"),
        ("data", f"{data['source'] or 'see the card'}; licence: {data['license'] or 'see the card'}"),
        ("weights", metadata["weights_license"]),
    ]
    table = "\n".join(f"| {key} | {value} |" for key, value in rows)
    return f"### {name}\n\n{metadata['description']}. [Card](../zoo/{name}/README.md)\n\n| | |\n|---|---|\n{table}\n"


def page():
    """The page, as text."""
    found = list(entries())
    head = [
        "# The zoo",
        "",
        "All entries, from what their presets say of themselves. `keras-attention list` shows the same in short, a",
        "card the whole story. Figures are of one model, on a test split by which nothing was chosen;",
        "that was done on validation. p is of a paired bootstrap: that such a difference comes by chance.",
        "",
        "| entry | task | score | size | licence of the weights |",
        "|---|---|---|---|---|",
    ]
    for folder, _, metadata in found:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        head.append(
            f"| [{folder.name}](#{folder.name.replace('.', '')}) | {metadata['task'].replace('_', ' ')} | "
            f"{metadata['headline']} | {size:.1f} MB | {metadata['weights_license']} |"
        )
    tasks = sorted({metadata["task"] for _, _, metadata in found})
    body = []
    for task in tasks:
        body.append(f"## {task.replace('_', ' ').capitalize()}\n")
        body.extend(section(*one) for one in found if one[2]["task"] == task)
    return "\n".join([*head, "", *body]).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "zoo.md").write_text(page(), "utf-8")

"""Scores of taggers and of relation classifiers: spans, semantic roles, tokens, SemEval-2010's macro-F1."""

from __future__ import annotations

import collections
from collections.abc import Hashable, Sequence
from typing import Any

from keras_attention.layers.tag_constraints import SCHEMES, split_tag

_NAMES = (
    "Cause-Effect",
    "Component-Whole",
    "Content-Container",
    "Entity-Destination",
    "Entity-Origin",
    "Instrument-Agency",
    "Member-Collection",
    "Message-Topic",
    "Product-Producer",
)
# Each relation in both directions -> the relation alone.
RELATIONS = {f"{name}({direction})": name for name in _NAMES for direction in ("e1,e2", "e2,e1")}

Tags = Sequence[Sequence[str]]


def span_scores(gold: Tags, predicted: Tags, scheme: str | None = None) -> dict[str, Any]:
    """Precision, recall and F1 of spans: one is right when its type, its first and its last word are. By seqeval.

    Args:
        gold, predicted: for each sentence its tags: "O", or such as "B-PER".
        scheme: None reads tags as conlleval does: a span that has no beginning still is one. "BIO", "IOB1" and "IOBES"
            take only spans that are whole in that scheme.

    Returns:
        dict: "precision", "recall", "f1", 0 to 100 (0 where there is nothing to divide by), of all spans together;
        "gold", "predicted", "correct", their numbers; "per_type", the same for each type.

    Raises:
        ValueError: an unknown scheme, unequal numbers of sentences or words, or a tag that is not of the scheme.
        ImportError: seqeval is not installed.

    Example:
        >>> round(span_scores([["B-PER", "I-PER", "O"]], [["B-PER", "O", "B-LOC"]])["f1"])
        0
    """
    if scheme is not None and scheme not in SCHEMES:
        raise ValueError(f"Unknown scheme {scheme!r}. Expected one of {', '.join(SCHEMES)}, or None for conlleval's.")
    _check_tags(gold, predicted, scheme or "IOBES")
    return _set_scores(*(_seqeval_spans(one, scheme) for one in (gold, predicted)))


def srl_scores(gold: Tags, predicted: Tags) -> dict[str, Any]:
    """Precision, recall and F1 of semantic roles, as srl-eval.pl of CoNLL-2005 counts arguments.

    Carreras and Màrquez, 2005: an argument is right when its role and the words that span it are. Its
    pieces, X and then C-X, are one argument, and right together or not at all; C-X without an X before is an X. The
    predicate, V with its C-V, is left out.

    Args:
        gold, predicted: for each predicate the BIO tags of its sentence. I-X that continues no X begins one.

    Returns: as `span_scores`.

    Raises:
        ValueError: unequal numbers of predicates or words, or a tag that is not BIO.
    """
    _check_tags(gold, predicted, "BIO")
    return _set_scores(*(_arguments(one) for one in (gold, predicted)))


def token_accuracy(gold: Tags, predicted: Tags) -> float:
    """The share of words with the right tag, 0 to 100, of all words together."""
    _check_lengths(gold, predicted)
    pairs = [pair for one, other in zip(gold, predicted, strict=True) for pair in zip(one, other, strict=True)]
    if not pairs:
        raise ValueError("There are no words to score. Expected at least one; check the data.")
    return 100 * sum(one == other for one, other in pairs) / len(pairs)


def semeval2010_macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The official score of SemEval-2010 task 8, 0 to 100; see `semeval2010_scores`."""
    return semeval2010_scores(gold, predicted)["macro_f1"]


def semeval2010_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Any]:
    """(9+1)-way evaluation that takes the direction into account, as the official scorer (version 1.2) does it.

    Hendrickx et al., 2010: both directions of a relation are one class; the right relation in the wrong
    direction is wrong, and counts among what was predicted of that class. Other is no class, but what is wrongly given
    to it, or taken from it, counts against the others.

    Args:
        gold, predicted: labels such as "Cause-Effect(e1,e2)" or "Other".

    Returns:
        dict: "macro_f1", the mean over the relations that gold has (in the data of the task all 9); "accuracy" over
        all 19 labels; "per_type": relation -> precision, recall, f1, gold, predicted, correct. Shares are 0 to 100.

    Raises:
        ValueError: unequal numbers, a label that the task does not have, or no relation in gold.
    """
    gold, predicted = list(gold), list(predicted)
    if len(gold) != len(predicted):
        raise ValueError(f"Expected as many predictions as labels. Received {len(predicted)} and {len(gold)}.")
    for label in (*gold, *predicted):
        if label != "Other" and label not in RELATIONS:
            raise ValueError(
                f"Unknown label {label!r}. Expected 'Other' or a relation with its direction, such as "
                "'Cause-Effect(e1,e2)'."
            )
    wanted = collections.Counter(RELATIONS[label] for label in gold if label in RELATIONS)
    given = collections.Counter(RELATIONS[label] for label in predicted if label in RELATIONS)
    pairs = zip(gold, predicted, strict=True)
    right = collections.Counter(RELATIONS[one] for one, other in pairs if one == other and one in RELATIONS)
    if not wanted:
        raise ValueError("There is no relation but Other in gold. Expected at least one; check the labels.")
    per_type = {name: _shares(right[name], wanted[name], given[name]) for name in sorted(wanted)}
    return {
        "macro_f1": sum(one["f1"] for one in per_type.values()) / len(per_type),
        "accuracy": 100 * sum(map(str.__eq__, gold, predicted)) / len(gold),
        "per_type": per_type,
    }


def _check_lengths(gold: Tags, predicted: Tags) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"Expected as many tagged sentences as gold ones. Received {len(predicted)} and {len(gold)}.")
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True), start=1):
        if isinstance(one, str) or isinstance(other, str):
            raise TypeError(f"Sentence {number} is a str. Expected a list of tags; pass tags.split().")
        if len(one) != len(other):
            raise ValueError(
                f"Sentence {number} has {len(one)} gold tags and {len(other)} predicted ones. Expected one a word; "
                "tag the same words."
            )


def _check_tags(gold: Tags, predicted: Tags, scheme: str) -> None:
    _check_lengths(gold, predicted)
    for tag in {tag for tags in (*gold, *predicted) for tag in tags}:
        split_tag(tag, scheme)


def _seqeval_spans(sentences: Tags, scheme: str | None) -> set[tuple[str, Hashable]]:
    """(type, (sentence, first word, last word)) of each span."""
    try:
        from seqeval.metrics.sequence_labeling import get_entities
        from seqeval.scheme import IOB1, IOB2, IOBES, Entities
    except ImportError as error:
        raise ImportError(
            "Scores of spans need the package seqeval, which is not installed. "
            'Install it with: pip install "keras-attention-zoo[eval]"'
        ) from error
    spans = set()
    if scheme is None:
        for number, tags in enumerate(sentences):
            spans |= {(kind, (number, first, last)) for kind, first, last in get_entities(list(tags))}
        return spans
    strict = {"BIO": IOB2, "IOB1": IOB1, "IOBES": IOBES}[scheme]
    for number, found in enumerate(Entities([list(tags) for tags in sentences], strict).entities):
        spans |= {(one.tag, (number, one.start, one.end)) for one in found}
    return spans


def _arguments(sentences: Tags) -> set[tuple[str, Hashable]]:
    """(role, (sentence, pieces)) of each argument."""
    found = set()
    for number, tags in enumerate(sentences):
        arguments: list[tuple[str, list]] = []
        latest: dict[str, list] = {}
        for kind, first, last in _bio_spans(tags):
            role = kind.removeprefix("C-")
            if kind != role and role in latest:
                latest[role].append((first, last))
                continue
            latest[role] = [(first, last)]
            arguments.append((role, latest[role]))
        found |= {(role, (number, tuple(pieces))) for role, pieces in arguments if role != "V"}
    return found


def _bio_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, first word, last word) of each span, in their order."""
    spans: list[tuple[str, int, int]] = []
    before = "O"
    for place, tag in enumerate(tags):
        if tag[0] == "I" and before != "O" and before[2:] == tag[2:]:
            kind, first, _ = spans.pop()
            spans.append((kind, first, place))
        elif tag != "O":
            spans.append((tag[2:], place, place))
        before = tag
    return spans


def _set_scores(gold: set, predicted: set) -> dict[str, Any]:
    """Scores of sets of (type, …), together and for each type."""
    counts = [collections.Counter(kind for kind, _ in one) for one in (gold & predicted, gold, predicted)]
    per_type = {kind: _shares(*(count[kind] for count in counts)) for kind in sorted({*counts[1], *counts[2]})}
    return {**_shares(len(gold & predicted), len(gold), len(predicted)), "per_type": per_type}


def _shares(correct: int, gold: int, predicted: int) -> dict[str, float]:
    return {
        "precision": 100 * correct / predicted if predicted else 0.0,
        "recall": 100 * correct / gold if gold else 0.0,
        "f1": 200 * correct / (gold + predicted) if gold + predicted else 0.0,
        "gold": gold,
        "predicted": predicted,
        "correct": correct,
    }

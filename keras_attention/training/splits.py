"""Splitting sentence pairs so that no sentence, on either side, stands in two parts."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from keras_attention.text.normalize import normalize

Pair = tuple[str, str]

DEFAULT_SEED = "keras-attention"


@dataclass(frozen=True)
class Splits:
    """Three disjoint lists of (source, target) pairs, both sides normalised.

    Within a part the pairs of one source follow each other; otherwise the order looks random (it is the order of
    hashes), so that the first n lines of a part are a fair sample of it.
    """

    train: list[Pair] = field(default_factory=list)
    valid: list[Pair] = field(default_factory=list)
    test: list[Pair] = field(default_factory=list)


def comparison_key(sentence: str) -> str:
    """What is left of a sentence when spelling details are set aside: two sentences with one key are one node.

    Case, spaces and punctuation are dropped: "Va-t'en !", "va-t’en!" and "Va-t'en." would otherwise sit on both sides
    of a split, and a model that learnt one by heart would be scored on the other. A sentence of punctuation alone
    keeps it.
    """
    return _key(normalize(sentence))


def _key(normalized: str) -> str:
    folded = normalized.casefold()
    return folded.translate(_DROPPED) or folded


class _DroppedCharacters(dict):
    """A table for `str.translate` that drops punctuation, spaces and controls, filled as characters are met."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code))[0] in "PZC" else code
        return self[code]


_DROPPED = _DroppedCharacters()


def split_pairs(
    pairs: Iterable[Pair],
    *,
    valid: int,
    test: int,
    seed: str = DEFAULT_SEED,
    largest_component: int = 20,
) -> Splits:
    """Splits pairs by connected component of the graph that joins each source to its targets.

    Components are ordered by sha256(seed, smallest source) and taken for `test`, then for `valid`, until each has
    exactly the wanted number of distinct sources; a component that does not fit any more is passed over. The rest is
    `train`. The result depends on the set of pairs and on the seed, never on the order of the input.

    Args:
        pairs: (source, target) strings; normalised here (`text.normalize`), exact duplicates dropped.
        valid: int >= 0. Distinct sources wanted in `valid`.
        test: int >= 0. Distinct sources wanted in `test`.
        seed: str. Another seed gives another split.
        largest_component: int >= 1. A component with more distinct sources than this always stays in `train`.

    Returns:
        `Splits`.

    Raises:
        ValueError: a count is negative, a side is empty, or there are not enough sources to reach the counts.

    Example:
        >>> splits = split_pairs([("Go.", "Va !"), ("Run!", "Cours !"), ("Hi.", "Salut !")], valid=1, test=1)
        >>> len(splits.train), len(splits.valid), len(splits.test)
        (1, 1, 1)
    """
    for name, value, least in (("valid", valid, 0), ("test", test, 0), ("largest_component", largest_component, 1)):
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}. Received {value}. Pass a number of sentences.")
    components = _ordered_components(_clean(pairs), seed)
    test_part, rest = _take(components, test, largest_component, "test")
    valid_part, rest = _take(rest, valid, largest_component, "valid")
    return Splits(train=_flatten(rest), valid=_flatten(valid_part), test=_flatten(test_part))


def _clean(pairs: Iterable[Pair]) -> list[Pair]:
    """Normalised, distinct pairs in a canonical order."""
    cleaned: set[Pair] = set()
    for number, (source, target) in enumerate(pairs, start=1):
        pair = normalize(source), normalize(target)
        if not all(pair):
            raise ValueError(
                f"Pair {number} has an empty side: ({source!r}, {target!r}). Expected text on both sides; "
                "drop the pair before splitting."
            )
        cleaned.add(pair)
    return sorted(cleaned)


def _ordered_components(pairs: list[Pair], seed: str) -> list[list[Pair]]:
    """Connected components, each a sorted list of pairs, in the order of their hashes."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def find(node: tuple[int, str]) -> tuple[int, str]:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    # The side is part of a node: "Non." may be a sentence of both languages without joining them.
    nodes = [((0, _key(source)), (1, _key(target))) for source, target in pairs]
    for source_node, target_node in nodes:
        parent.setdefault(source_node, source_node)
        parent.setdefault(target_node, target_node)
        parent[find(source_node)] = find(target_node)
    components: dict[tuple[int, str], list[Pair]] = {}
    for pair, (source_node, _) in zip(pairs, nodes, strict=True):
        components.setdefault(find(source_node), []).append(pair)
    # Pairs are sorted, so the first of each component has its smallest source, and sources are distinct.
    return sorted(components.values(), key=lambda component: _hash(seed, component[0][0]))


def _hash(seed: str, source: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{source}".encode()).digest()


def _take(
    components: list[list[Pair]], wanted: int, largest_component: int, name: str
) -> tuple[list[list[Pair]], list[list[Pair]]]:
    """(components with exactly `wanted` distinct sources together, all others)."""
    taken, rest, count = [], [], 0
    for component in components:
        sources = len({source for source, _ in component})
        if sources <= min(wanted - count, largest_component):
            taken.append(component)
            count += sources
        else:
            rest.append(component)
    if count != wanted:
        raise ValueError(
            f"Cannot give `{name}` exactly {wanted} distinct sources: reached {count}. Sentences that share a "
            f"translation stay together, and groups of more than {largest_component} sources stay in train. Ask for "
            "fewer, bring more pairs, or raise `largest_component`."
        )
    return taken, rest


def _flatten(components: list[list[Pair]]) -> list[Pair]:
    return [pair for component in components for pair in component]

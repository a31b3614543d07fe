"""Reader of sentences with two marked entities and their relation (SemEval-2010, task 8)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from keras_attention.text.entity_marks import check_marks, split_at_marks
from keras_attention.training.readers import DataError, Limits, Located, PathLike, _cut, read_each
from keras_attention.training.tag_metrics import RELATIONS

__all__ = ["parse_relation", "read_relations"]

_LIMITS = Limits()
_SENTENCE = re.compile(r'(\d+)\t"?(.*?)"?')

Span = tuple[int, int]


def parse_relation(text: str, split: Callable[[str], list[str]] | None = None) -> tuple[list[str], Span, Span]:
    """Takes the marks out of a sentence such as "The <e1>author</e1> uses a <e2>disassembler</e2>.".

    A mark ends a word: what stands before and behind it are words of their own, with or without a space.

    Args:
        text: str, with each of <e1>, </e1>, <e2>, </e2> once; either entity may come first.
        split: function of a str -> its words; default: the words of `WordTokenizer`, in the case that they have.

    Returns:
        words, list of str; the spans of both entities, (first word, behind the last word).

    Raises:
        ValueError: a mark is missing, comes twice, overlaps the other entity, or has no word inside.

    Example:
        >>> parse_relation("A <e1>ridge</e1> uprises from the <e2>surge</e2>.")
        (['A', 'ridge', 'uprises', 'from', 'the', 'surge', '.'], (1, 2), (5, 6))
    """
    marks = check_marks(text)
    words: list[str] = []
    spans: dict[str, Span] = {}
    for place, found in enumerate(split_at_marks(text, marks, split or _splitter())):
        if place % 2:
            spans[marks[place - 1]] = (len(words), len(words) + len(found))
        words += found
    return words, spans["<e1>"], spans["<e2>"]


@functools.cache
def _splitter() -> Callable[[str], list[str]]:
    from keras_attention.text import WordTokenizer

    return WordTokenizer.from_words(["a"], lowercase=False).words


def read_relations(paths: PathLike | Sequence[PathLike], *, limits: Limits = _LIMITS) -> Iterator[dict[str, Any]]:
    """Reads the files of the task, plain or gzipped: a numbered sentence in quotes, its relation, a comment, a blank.

    Args:
        paths: a path or several, read one after the other.
        limits: `Limits` on lines and on what gz may unfold to.

    Returns:
        An iterator of dicts: "id", int; "text", with its marks, without its quotes; "label", such as
        "Cause-Effect(e2,e1)" or "Other".

    Raises:
        DataError: a missing or damaged file, a sentence that is not numbered or wrongly marked, an unknown relation.
    """
    return read_each(paths, _examples, limits)


def _examples(name: str, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    numbered = ((f"{name}:{number}", line.strip()) for number, line in enumerate(lines, start=1))
    for where, line in numbered:
        if not line or line.startswith("Comment"):
            continue
        sentence = _SENTENCE.fullmatch(line)
        if not sentence:
            raise DataError(
                f"{where}: {_cut(line)!r} is no sentence. Expected a number, a tab and a sentence in quotes."
            )
        try:
            parse_relation(sentence[2], str.split)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from error
        where, label = next(numbered, (where, ""))
        if label != "Other" and label not in RELATIONS:
            raise DataError(
                f"{where}: {_cut(label)!r} is no relation. Expected 'Other' or one of {', '.join(sorted(RELATIONS))}."
            )
        yield Located.at(where, {"id": int(sentence[1]), "text": sentence[2], "label": label})

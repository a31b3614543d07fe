"""The marks around two entities of a sentence, `<e1>…</e1>` and `<e2>…</e2>`: checked, and as words of their own.

A tokenizer would take a mark apart. So each becomes a reserved word first, a character of Unicode's private use area
with spaces around it, in Python and in a TensorFlow graph alike; a text cannot forge one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["MARKS", "MARK_WORDS", "check_marks", "graph_reserve_marks", "reserve_marks", "shown", "split_at_marks"]

MARKS = ("<e1>", "</e1>", "<e2>", "</e2>")
MARK_WORDS = ("\ue001", "\ue002", "\ue003", "\ue004")  # of each mark, in their order

_ORDERS = (MARKS, (*MARKS[2:], *MARKS[:2]))
_ANY = re.compile(r"</?e[12]>")
_FORGED = f"[{MARK_WORDS[0]}-{MARK_WORDS[-1]}]"


def check_marks(text: str) -> list[str]:
    """The marks of a sentence in their order, one entity closed before the other opens.

    Raises:
        ValueError: a mark is missing, comes twice, or overlaps the other entity.
    """
    marks = _ANY.findall(text)
    for mark in MARKS:
        if marks.count(mark) != 1:
            wrong = "is missing" if mark not in marks else f"comes {marks.count(mark)} times"
            raise ValueError(
                f"The mark {mark} {wrong} in {_cut(text)!r}. Expected both entities marked once, such as "
                "'The <e1>author</e1> uses a <e2>disassembler</e2>.'."
            )
    if tuple(marks) not in _ORDERS:
        raise ValueError(
            f"The marks are {' '.join(marks)} in {_cut(text)!r}. Expected one entity closed before the other opens; "
            "move them apart."
        )
    return marks


def split_at_marks(text: str, marks: Sequence[str], split) -> list[list[str]]:
    """The words before, between and behind the marks that `check_marks` found; `split` takes a text apart.

    Raises:
        ValueError: an entity has no word.
    """
    parts = [split(part) for part in _ANY.split(text)]
    for place in (1, 3):
        if not parts[place]:
            raise ValueError(
                f"There is no word between {marks[place - 1]} and {marks[place]} in {_cut(text)!r}. Expected at least "
                "one; put the entity between its marks."
            )
    return parts


def reserve_marks(text: str) -> str:
    """`text` with the word of each mark in its place."""
    text = re.sub(_FORGED, "\ufffd", text)
    for mark, word in zip(MARKS, MARK_WORDS, strict=True):
        text = text.replace(mark, f" {word} ")
    return text


def graph_reserve_marks(strings: Any) -> Any:
    """`reserve_marks` in a graph: string (B,) in UTF-8 → string (B,)."""
    import tensorflow as tf

    strings = tf.strings.regex_replace(strings, _FORGED, "\ufffd")
    for mark, word in zip(MARKS, MARK_WORDS, strict=True):
        strings = tf.strings.regex_replace(strings, mark, f" {word} ")
    return strings


def shown(words: Sequence[str]) -> list[str]:
    """Words as a map shows them: each mark as it is written in a text."""
    names = dict(zip(MARK_WORDS, MARKS, strict=True))
    return [names.get(word, word) for word in words]


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."

"""Labels of the rows and columns of a map, and how any text is made safe to show.

A kind of label is a class of tuple of str: a plain tuple holds tokens. A kind with a geometry of its own, such as an
image grid, subclasses tuple and is kept as it is, so that whoever draws can ask for it, and all others see strings.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

ELLIPSIS = "…"
_SYMBOLS = {"\n": "↵", "\t": "⇥"}
_JOINERS = "\u200c\u200d"  # zero-width (non-)joiner: part of Persian, Devanagari and emoji spelling, so left alone


def as_labels(labels: Sequence[str], count: int, side: str) -> tuple[str, ...]:
    """Checks the labels of one side and returns them as a tuple.

    Args:
        labels: sequence of str, one per row or column.
        count: int. How many are needed.
        side: str. "rows" or "columns", for the messages.

    Raises:
        TypeError: `labels` is one str or no sequence, or a label is not a str.
        ValueError: the number of labels is not `count`.
    """
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise TypeError(
            f"`{side}` is {labels!r}, a {type(labels).__name__}. Expected a sequence of str, one per weight. "
            f"Pass a list of tokens, e.g. `{side}=text.split()`."
        )
    kept = labels if isinstance(labels, tuple) else tuple(labels)
    for index, label in enumerate(kept):
        if not isinstance(label, str):
            raise TypeError(
                f"`{side}[{index}]` is {label!r}, a {type(label).__name__}. Expected a str. "
                f"Turn ids into tokens first, or pass `str(label)`."
            )
    if len(kept) != count:
        raise ValueError(
            f"`{side}` has {len(kept)} labels for weights with {count} {side}. Expected one label each. "
            f"Cut both at the same length, and leave padding out of both."
        )
    return kept


def visible(label: str) -> str:
    """Replaces what cannot be seen or would act on the screen: control characters, line ends, lone surrogates.

    A newline becomes `↵`, a tab `⇥`, a label of spaces `␣`; any other such character its code, e.g. `U+001B`.
    """
    if label and not label.strip(" "):
        return "␣" * len(label)
    return "".join(_visible_character(character) for character in label)


def _visible_character(character: str) -> str:
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS:
        return code_point(character)
    return character


def code_point(character: str) -> str:
    """The code of a character as text, e.g. `U+4E2D`."""
    return f"U+{ord(character):04X}"


def character_width(character: str) -> int:
    """Cells that a terminal gives to one character: 0 for combining ones, 2 for wide East Asian ones, else 1."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def display_width(text: str) -> int:
    """Cells that a terminal gives to a text."""
    return sum(map(character_width, text))


def clusters(text: str) -> list[str]:
    """Cuts a text into characters with the combining marks that belong to them."""
    cut: list[str] = []
    for character in text:
        joins = unicodedata.category(character).startswith("M") or character_width(character) == 0
        if cut and (joins or cut[-1].endswith("\u200d")):
            cut[-1] += character
        else:
            cut.append(character)
    return cut


def shorten(text: str, width: int) -> str:
    """Cuts a text to at most `width` >= 1 cells, the last of which is `…` where something was left out."""
    if display_width(text) <= width:
        return text
    kept, room = [], width - 1
    for cluster in clusters(text):
        room -= display_width(cluster)
        if room < 0:
            break
        kept.append(cluster)
    return "".join(kept) + ELLIPSIS

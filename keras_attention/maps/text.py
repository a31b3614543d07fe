"""Writes an AttentionMap with characters, for a terminal or a log."""

from __future__ import annotations

import math
import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_attention.maps import colours
from keras_attention.maps.labels import display_width, shorten, visible

if TYPE_CHECKING:
    from keras_attention.maps.attention_map import AttentionMap

SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.05, "░"), (0.0, " "))
MIN_WIDTH = 20
MAX_STAIRS = 16  # up to so many labels stand in a staircase, more are numbered
_LABEL_WIDTH = 20
_LEFT_TO_RIGHT_MARK = "\u200e"


def draw(attention: AttentionMap, *, width: int | None, color: bool | None) -> str:
    """Writes a map; see `AttentionMap.text`."""
    if width is None:
        width = max(MIN_WIDTH, shutil.get_terminal_size(fallback=(80, 24)).columns)
    if width < MIN_WIDTH:
        raise ValueError(f"`width` is {width}. Expected at least {MIN_WIDTH} cells in a line. Pass e.g. 80.")
    if color is None:
        color = sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    lines = [shorten(visible(attention.name), width)]
    for title, weights in attention.slices():
        if title:
            lines += ["", shorten(visible(title), width)]
        lines += _table(attention, weights, width, color)
    lines.append(_scale(color))
    return "\n".join(line.rstrip() for line in lines)


def shade(weight: float) -> str:
    """The character that stands for a weight."""
    return next(character for least, character in SHADES if weight >= least)


def _scale(color: bool) -> str:
    if color:
        return "0 " + "".join(_cell(weight, color, 2) for weight in np.linspace(0, 1, 8)) + " 1"
    return "  ".join(f"{character} from {least:g}" for least, character in reversed(SHADES[:-1]))


def _cell(weight: float, color: bool, size: int) -> str:
    return f"\x1b[48;5;{colours.terminal(weight)}m{' ' * size}\x1b[0m" if color else size * shade(weight)


def _table(attention: AttentionMap, weights: np.ndarray, width: int, color: bool) -> list[str]:
    """One slice: as many columns side by side as fit, the rest in further blocks of equal size."""
    count = len(attention.columns)
    rows, left = _row_labels(attention.rows, min(_LABEL_WIDTH, width // 3))
    cell = 2  # characters, which make about a square
    if left + 2 + cell * count > width:  # 2: the border
        cell = 1
        rows, left = _row_labels(attention.rows, min(_LABEL_WIDTH, width // 3, max(8, width - 2 - count)))
    blocks = math.ceil(count * cell / (width - left - 2)) or 1
    size = math.ceil(count / blocks) or 1
    lines = []
    for start in range(0, max(1, count), size):
        part = slice(start, start + size)
        columns = [visible(column) for column in attention.columns[part]]
        numbered = cell == 1 or len(columns) > MAX_STAIRS
        lines += _numbers(start, len(columns), left, cell) if numbered else _stairs(columns, left, width)
        for row, seen in zip(rows, weights[:, part], strict=True):
            lines.append(f"{row}│{''.join(_cell(weight, color, cell) for weight in seen)}│")
        lines += _legend(start, columns, width) if numbered else []
        lines += [""] if start + size < count else []
    return lines


def _row_labels(rows: Sequence[str], most: int) -> tuple[list[str], int]:
    """The labels flush right, at most `most` cells wide, and their common width."""
    shown = [shorten(visible(row), most) for row in rows]
    left = max(map(display_width, shown), default=0)
    return [" " * (left - display_width(row)) + _isolated(row) for row in shown], left


def _stairs(columns: Sequence[str], left: int, width: int) -> list[str]:
    """Labels above one another, each with a line down to its column."""
    lines = []
    for place, column in enumerate(columns):
        before = " " * (left + 1) + "│ " * place + "┌ "
        lines.append(before + _isolated(shorten(column, max(2, width - len(before)))))
    return lines


def _numbers(start: int, count: int, left: int, cell: int) -> list[str]:
    """Column numbers from 1, read downwards: hundreds, tens and ones in lines of their own, zeros in front left out."""
    numbers = [str(start + place + 1) for place in range(count)]
    digits = max(map(len, numbers))
    margin = " " * (left + 1)
    return [margin + "".join(number.rjust(digits)[digit].ljust(cell) for number in numbers) for digit in range(digits)]


def _legend(start: int, columns: Sequence[str], width: int) -> list[str]:
    """Which number is which column, as many to a line as fit."""
    lines: list[str] = []
    room = 0
    for place, column in enumerate(columns):
        entry = f"{start + place + 1} {_isolated(shorten(column, min(_LABEL_WIDTH, width - 6)))}"
        needed = display_width(entry) + 2
        if lines and needed <= room:
            lines[-1] += "  " + entry
            room -= needed
        else:
            lines.append(entry)
            room = width - display_width(entry)
    return lines


def _isolated(label: str) -> str:
    """Keeps a right-to-left label from turning round what stands beside it, by marks without width."""
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label):
        return f"{_LEFT_TO_RIGHT_MARK}{label}{_LEFT_TO_RIGHT_MARK}"
    return label

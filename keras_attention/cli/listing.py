"""`keras-attention list`: what is in the zoo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from keras_attention import zoo

HEADER = ("ENTRY", "TASK", "SIZE", "LICENCE", "SCORE")


def show(as_json: bool) -> None:
    """Prints the entries: a table, or a JSON array."""
    entries = zoo.list()
    if as_json:
        print(
            json.dumps([{**asdict(entry), "path": str(entry.path)} for entry in entries], ensure_ascii=False, indent=1)
        )
        return
    rows = [(one.name, one.task, size(one.size_bytes), one.weights_license, one.headline) for one in entries]
    print("\n".join(table([HEADER, *rows])))


def size(count: int) -> str:
    """Bytes for people, in decimal units."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

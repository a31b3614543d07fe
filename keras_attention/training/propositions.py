"""Reader of semantic roles: column files with one column of brackets for each predicate (CoNLL-2005)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from keras_attention.training.conll import Row, cell, read_sentences
from keras_attention.training.readers import BadLines, DataError, Limits, Located, PathLike, _cut

PROPBANK_COLUMNS = MappingProxyType({"words": 1, "pos": 2, "lemma": 3, "roleset": 4})
_LIMITS = Limits()
_PART = re.compile(r"(?:\(([^()*]+))?\*(?:([^()*]*)(\)))?")


def read_propositions(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: Mapping[str, int] = PROPBANK_COLUMNS,
    first_role: int = 5,
    separator: str = "\t",
    skip_bad: bool = False,
    bad_lines: BadLines | None = None,
    limits: Limits = _LIMITS,
) -> Iterator[dict[str, Any]]:
    """Reads one example for each predicate of each sentence; sentences without a predicate give none.

    Args:
        columns: "words", "lemma" (of the predicate, "-" elsewhere), and any others -> their columns, from 0.
        first_role: int. The column of the roles of the first predicate; the others follow, in the order of their rows.
        paths, separator, skip_bad, bad_lines, limits: as for `read_conll`.

    Returns:
        An iterator of dicts: "words" and the other columns, lists of str; "predicate", the place of it among the words,
        from 0; "tags", the roles in BIO, "B-V" that of the predicate. "lemma" and "roleset" are those of the predicate.

    Raises:
        DataError: as for `read_conll`; a wrong number of columns, or brackets that do not match.
        ValueError: "words" or "lemma" is missing from `columns`.
    """
    columns = dict(columns)
    if not {"words", "lemma"} <= columns.keys() or first_role <= max(columns.values()):
        raise ValueError(
            f'`columns` must have "words" and "lemma", all before the column `first_role`. Received {columns!r}, '
            f"first_role {first_role}."
        )

    def examples(rows: list[Row]) -> list[dict[str, Any]]:
        parts = {name: [cell(row, index, name) for row in rows] for name, index in columns.items()}
        predicates = [place for place, lemma in enumerate(parts["lemma"]) if lemma != "-"]
        for where, cells in rows:
            if len(cells) != first_role + len(predicates):
                raise DataError(
                    f"{where}: {len(cells)} columns. Expected {first_role + len(predicates)}: {first_role}, and one of "
                    f"roles for each of the {len(predicates)} predicate(s) of the sentence; complete the line."
                )
        return [
            Located.at(
                rows[place][0],
                {
                    **{name: values for name, values in parts.items() if name not in ("lemma", "roleset")},
                    **{name: parts[name][place] for name in ("lemma", "roleset") if name in parts},
                    "predicate": place,
                    "tags": _bio([(where, cells[first_role + index]) for where, cells in rows]),
                },
            )
            for index, place in enumerate(predicates)
        ]

    found = read_sentences(paths, examples, separator=separator, skip_bad=skip_bad, bad_lines=bad_lines, limits=limits)
    return (example for sentence in found for example in sentence)


def _bio(cells: list[tuple[str, str]]) -> list[str]:
    """A column of brackets, such as (A0* and *), each with its file:line -> tags such as B-A0, I-A0 and O."""
    tags: list[str] = []
    label, opened = None, ""
    for where, text in cells:
        part = _PART.fullmatch(text)
        if not part or (part[1] and label) or (part[3] and not (part[1] or label)):
            raise DataError(
                f"{where}: the roles do not match at {_cut(text)!r}"
                f"{f', inside ({label}* of {opened}' if label else ''}. Expected such as (A0*, *, *) or (A0*), each "
                "opened bracket closed before the next; correct the column."
            )
        if part[1]:
            label, opened = part[1], where
            tags.append(f"B-{label}")
        else:
            tags.append(f"I-{label}" if label else "O")
        if part[3]:
            if part[2] and part[2] != label:
                raise DataError(f"{where}: {part[2]!r} closes ({label}* of {opened}. Expected {label!r}, or nothing.")
            label = None
    if label:
        raise DataError(f"{opened}: ({label}* is never closed. Expected *) on its last word; correct the column.")
    return tags

"""Readers of column files: a word a line, its annotation beside it, a blank line between sentences (CoNLL)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from keras_attention.training.readers import (
    BadLines,
    DataError,
    Limits,
    Located,
    PathLike,
    _accept,
    _check_file,
    _cut,
    _lines,
    _name,
)

SEPARATORS = ("\t", " ")
WORDS_AND_TAGS = MappingProxyType({"words": 0, "tags": 1})
LONGEST_SENTENCE = 100_000  # words: a file whose blank lines are lost must not be collected whole
_LIMITS = Limits()
_ID = re.compile(r"(\d+)(?:[-.]\d+)?")

Row = tuple[str, list[str]]  # file:line, and the cells


def read_conll(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: Mapping[str, int] = WORDS_AND_TAGS,
    separator: str = "\t",
    id_column: int | None = None,
    skip_bad: bool = False,
    bad_lines: BadLines | None = None,
    limits: Limits = _LIMITS,
) -> Iterator[dict[str, list[str]]]:
    """Reads sentences from files of columns, each plain or gzipped, one sentence at a time.

    Lines of spaces and tabs alone are blank. In files with tabs, a line that starts with "# " and has no tab is a
    comment; in files with spaces there are none, as "#" is a word there.

    Args:
        paths: a path or several, read one after the other; "-" is standard input.
        columns: name of a part of the example -> its column, counted from 0.
        separator: a tab, or " ", of which several are one.
        id_column: int. Column of CoNLL-U's word ids; lines with an id such as 3-4 or 8.1 are no words and are left out.
            None: there is none.
        skip_bad: bool. Skip a sentence with a bad line instead of raising. What is wrong with a file still raises.
        bad_lines: `BadLines` that counts the sentences that were skipped.
        limits: `Limits` on lines and on what gz may unfold to.

    Returns:
        An iterator of dicts: name -> list of non-empty strings, one a word; all of one length, at least 1.

    Raises:
        DataError: a missing, empty or damaged file, a column that is missing or empty, a line that is not UTF-8.
        ValueError: an unknown separator, or a negative column.

    Example:
        >>> next(read_conll("wnut17train.conll.gz"))     # doctest: +SKIP
        {'words': ['@paulwalk', 'It', "'s", …], 'tags': ['O', 'O', 'O', …]}
    """
    columns = dict(columns)
    wanted = [*columns.values(), *([] if id_column is None else [id_column])]
    if not columns or any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in wanted):
        raise ValueError(
            f"`columns` must map names to columns, counted from 0. Received {columns!r}, id {id_column!r}."
        )

    def example(rows: list[Row]) -> dict[str, list[str]] | None:
        if id_column is not None:
            rows = [row for row in rows if _is_word(row, id_column)]
        if not rows:
            return None
        values = {name: [cell(row, index, name) for row in rows] for name, index in columns.items()}
        return Located.at(rows[0][0], values)

    return read_sentences(paths, example, separator=separator, skip_bad=skip_bad, bad_lines=bad_lines, limits=limits)


def read_sentences(paths, example, *, separator, skip_bad, bad_lines, limits) -> Iterator:
    """`example(rows)` of each sentence of the files, where it is not None; its `DataError` is that of the sentence."""
    files = [paths] if isinstance(paths, PathLike) else list(paths)
    if separator not in SEPARATORS or not files:
        raise ValueError(
            f'Expected at least one path, and a separator "\\t" or " ". Received paths {files!r}, separator '
            f"{separator!r}."
        )
    for file in files:
        _check_file(file)
    skipped = (bad_lines if bad_lines is not None else BadLines()) if skip_bad else None
    made = (_made(example, rows) for file in files for rows in _sentences(file, separator, limits))
    return (one for one in _accept(made, skipped) if one is not None)


def cell(row: Row, index: int, name: str) -> str:
    """The text of a column of a row; an error names what is missing."""
    where, cells = row
    if index >= len(cells):
        raise DataError(
            f"{where}: column {index} ({name!r}) is missing: {len(cells)} column(s) in {_cut(' '.join(cells))!r}. "
            f"Expected at least {index + 1}, counted from 0; complete the line, or name other columns or separator."
        )
    if not cells[index].strip():
        raise DataError(
            f"{where}: column {index} ({name!r}) is empty. Expected text; fill it in, or blank the line to end a "
            "sentence."
        )
    return cells[index]


def _made(example, rows: list[Row] | DataError):
    if isinstance(rows, DataError):
        return rows
    try:
        return example(rows)
    except DataError as error:
        return error


def _sentences(file: PathLike, separator: str, limits: Limits) -> Iterator[list[Row] | DataError]:
    """The rows of each sentence, or what is wrong with the first bad one of them."""
    rows: list[Row] = []
    bad: DataError | None = None
    found = False
    for number, line in _lines(file, limits):
        where = f"{_name(file)}:{number}"
        if isinstance(line, DataError):
            bad = bad or line
        elif not line.strip(" \t"):
            if bad or rows:
                found = True
                yield bad or rows
            rows, bad = [], None
        elif not (separator == "\t" and line.startswith("# ") and "\t" not in line):
            rows.append((where, line.split("\t") if separator == "\t" else re.split(" +", line.strip(" "))))
            if len(rows) > LONGEST_SENTENCE:
                raise DataError(
                    f"{where}: a sentence of more than {LONGEST_SENTENCE} words. Expected a blank line between "
                    "sentences; put them in."
                )
    if bad or rows:
        yield bad or rows
    elif not found:
        raise DataError(f"{_name(file)}: there is no sentence in it. Expected a word a line; check how it was written.")


def _is_word(row: Row, id_column: int) -> bool:
    text = cell(row, id_column, "id")
    matched = _ID.fullmatch(text)
    if not matched:
        raise DataError(
            f"{row[0]}: the id is {_cut(text)!r}. Expected a number, or such as 3-4 or 8.1; check `id_column`."
        )
    return matched.group(1) == text

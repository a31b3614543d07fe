"""Readers: files in, example dicts out; streamed, checked, and a bad line is named as `file:line`.

Lines are split on the line feed alone: sentences may hold characters that `str.splitlines` takes for line ends.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

PathLike = str | Path
Example = dict[str, str]

FORMATS = ("tsv", "jsonl", "parallel")
_SUFFIXES = {".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class Located(dict):
    """An example that knows where it stands.

    Attributes:
        where: str. `file:line`.
    """

    where = ""

    @classmethod
    def at(cls, where: str, values: dict) -> Located:
        found = cls(values)
        found.where = where
        return found


class DataError(ValueError):
    """A file or a line that cannot be read as asked; the message starts with `file:line:` where a line is at fault."""


@dataclass
class BadLines:
    """Counts the lines that were skipped and keeps the first few messages.

    Args:
        keep: int >= 0. How many messages to keep.
    """

    keep: int = 5
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        self.count += 1
        if len(self.messages) < self.keep:
            self.messages.append(str(error))


@dataclass(frozen=True)
class Limits:
    """What a file may cost.

    Args:
        line_bytes: int. Longest line, in bytes.
        gz_ratio: int. How many bytes one compressed byte may unfold to; text stays under 20, a gzip bomb is near 1,000.
        gz_free_bytes: int. The ratio is not judged before this many bytes have unfolded.
    """

    line_bytes: int = 1_000_000
    gz_ratio: int = 100
    gz_free_bytes: int = 16_000_000


def read_examples(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: Sequence[str],
    format: str | None = None,
    skip_bad: bool = False,
    bad_lines: BadLines | None = None,
    limits: Limits = Limits(),
) -> Iterator[Example]:
    """Reads examples from TSV, JSONL or parallel text files, each plain or gzipped, one at a time.

    Args:
        paths: a path or several. "tsv" and "jsonl" files are read one after the other; "parallel" wants one file for
            each column. "-" is standard input.
        columns: names of the columns of an example: by position in "tsv" and "parallel", as keys in "jsonl".
        format: "tsv", "jsonl" or "parallel"; default: from the suffix (.tsv, .tab, .jsonl, .ndjson, before .gz); other
            suffixes are parallel files when there is one file a column, and a single .txt is "tsv".
        skip_bad: bool. Skip bad lines instead of raising. What is wrong with a whole file still raises.
        bad_lines: `BadLines` that counts what was skipped.
        limits: `Limits` on lines and on what gz may unfold to.

    Returns:
        An iterator of dicts, column -> non-empty string.

    Raises:
        DataError: a missing, empty or damaged file; a bad line; parallel files of unequal length. Paths and format are
            checked at the call, lines as they are read.
        ValueError: unknown `format`, no columns, or not one file a column for "parallel".

    Example:
        >>> list(read_examples("pairs.tsv", columns=("source", "target")))     # doctest: +SKIP
        [{'source': 'Go.', 'target': 'Va !'}]
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    columns = tuple(columns)
    if not files or not columns or len(set(columns)) != len(columns):
        raise ValueError(
            f"Expected at least one path and distinct column names. Received paths {files!r}, columns {columns!r}."
        )
    formats = _formats(files, columns, format)
    for file in files:
        _check_file(file)
    skipped = (bad_lines if bad_lines is not None else BadLines()) if skip_bad else None
    if formats == ["parallel"]:
        return _accept(_parallel_rows(files, columns, limits), skipped)
    return _accept(
        (
            _parse(item, kind, columns, f"{_name(file)}:{number}")
            for file, kind in zip(files, formats, strict=True)
            for number, item in _lines(file, limits)
        ),
        skipped,
    )


def read_lines(
    path: PathLike,
    *,
    skip_bad: bool = False,
    bad_lines: BadLines | None = None,
    limits: Limits = Limits(),
) -> Iterator[str]:
    """Reads a file of one sentence a line, plain or gzipped; "-" is standard input.

    Blank lines come as "", so that output n belongs to line n.

    Args: as for `read_examples`.

    Raises:
        DataError: a missing, empty or damaged file, or a line that is too long or not UTF-8.
    """
    _check_file(path)
    skipped = (bad_lines if bad_lines is not None else BadLines()) if skip_bad else None
    return _accept((item for _, item in _lines(path, limits)), skipped)


def read_each(
    paths: PathLike | Sequence[PathLike], examples: Callable[[str, Iterator[str]], Iterator], limits: Limits
) -> Iterator:
    """`examples(name, lines)` of each file, one after the other; all files are looked for at the call."""
    files = [paths] if isinstance(paths, PathLike) else list(paths)
    if not files:
        raise ValueError("Expected at least one path. Received none.")
    streams = [(_name(file), read_lines(file, limits=limits)) for file in files]
    return (example for name, lines in streams for example in examples(name, lines))


def _accept(items: Iterable, skipped: BadLines | None) -> Iterator:
    """Passes good items on; raises the first bad one, or counts it where skipping is allowed."""
    for item in items:
        if not isinstance(item, DataError):
            yield item
        elif skipped is None:
            raise item
        else:
            skipped.add(item)


def _formats(files: list[PathLike], columns: tuple[str, ...], format: str | None) -> list[str]:
    """One format for each file, or ["parallel"]."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"Unknown format {format!r}. Expected one of {', '.join(FORMATS)}, or None for the suffix.")
    if format in ("tsv", "jsonl"):
        return [format] * len(files)
    found = [_SUFFIXES.get(_suffix(file)) for file in files]
    if format is None and all(found):
        return found
    if format is None and len(files) == 1 and _suffix(files[0]) == ".txt":
        return ["tsv"]
    if (format == "parallel" or not any(found)) and len(files) == len(columns):
        return ["parallel"]
    if format == "parallel":
        raise ValueError(
            f'Format "parallel" wants one file for each of the columns {columns}. Received {len(files)} file(s): '
            f"{[_name(file) for file in files]}. Give {len(columns)} paths in the order of the columns."
        )
    raise ValueError(
        f"Cannot tell the format of {[_name(file) for file in files]} from the suffix. Expected .tsv or .jsonl (or .gz "
        f"of these), or one text file for each of the columns {columns}. Pass `format`."
    )


def _suffix(file: PathLike) -> str:
    name = Path(file).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def _name(file: PathLike) -> str:
    return "<stdin>" if str(file) == "-" else str(file)


def _check_file(file: PathLike) -> None:
    if str(file) == "-":
        return
    path = Path(file)
    if path.is_dir():
        raise DataError(f"{path}: this is a folder. Expected a file; name a file inside it.")
    if not path.exists():
        raise DataError(f"{path}: no such file. Expected a readable text file; check the path and the current folder.")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty. Expected at least one line; check how it was written.")


def _lines(file: PathLike, limits: Limits) -> Iterator[tuple[int, str | DataError]]:
    """(line number from 1, the line without its end, or what is wrong with it)."""
    name, number = _name(file), 0
    stream, guard = _open(file, limits)
    try:
        while True:
            data = stream.readline(limits.line_bytes + 2)  # a line of exactly line_bytes still has its "\r\n"
            if not data:
                break
            number += 1
            text = data.removesuffix(b"\n").removesuffix(b"\r")
            if len(text) > limits.line_bytes:
                yield (
                    number,
                    DataError(
                        f"{name}:{number}: the line is longer than {limits.line_bytes} bytes. Expected one example a "
                        'line; check that lines end in "\\n", or raise `limits`.'
                    ),
                )
                while data and not data.endswith(b"\n"):
                    data = stream.readline(limits.line_bytes)
                    guard(number)
            else:
                yield number, _decode(text.removeprefix(b"\xef\xbb\xbf") if number == 1 else text, name, number)
            guard(number)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{name}:{number + 1}: the gzip data is damaged, cut short, or not gzip at all ({error}). Expected a whole "
            ".gz file; fetch or compress it again, or rename it if it is plain text."
        ) from error
    except OSError as error:
        raise DataError(
            f"{name}: cannot be read ({error}). Expected a readable file; check its permissions."
        ) from error
    finally:
        if stream is not sys.stdin.buffer:
            stream.close()
    if number == 0:
        raise DataError(f"{name}: there is no line in it. Expected at least one; check how it was written.")


def _open(file: PathLike, limits: Limits):
    """(binary stream, a check to call after each line that raises when a gzip file unfolds to too much)."""
    if str(file) == "-":
        return sys.stdin.buffer, lambda number: None
    try:
        raw: BinaryIO = open(file, "rb")  # noqa: SIM115 - closed by `_lines`
    except OSError as error:
        raise DataError(
            f"{file}: cannot be opened ({error}). Expected a readable file; check its permissions."
        ) from error
    if Path(file).suffix.lower() != ".gz":
        return raw, lambda number: None
    stream = gzip.GzipFile(fileobj=raw, mode="rb")
    stream.myfileobj = raw  # closing the gzip stream closes the file too

    def guard(number: int) -> None:
        unfolded = stream.tell()
        if unfolded > limits.gz_free_bytes and unfolded > limits.gz_ratio * max(raw.tell(), 1):
            raise DataError(
                f"{file}:{number}: {unfolded} bytes unfolded from {raw.tell()} compressed ones, more than "
                f"{limits.gz_ratio} to 1. Expected text; if the file can be trusted, unpack it or raise `limits`."
            )

    return stream, guard


def _decode(data: bytes, name: str, number: int) -> str | DataError:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "save the file as UTF-8 (iconv -f latin1 -t utf-8)"
        if number == 1 and data.startswith((b"\xff\xfe", b"\xfe\xff")):
            hint = "it looks like UTF-16: save it as UTF-8 (iconv -f utf-16 -t utf-8)"
        elif number == 1 and data.startswith(b"\x1f\x8b"):
            hint = "it looks like gzip: give its name the suffix .gz"
        return DataError(
            f"{name}:{number}: invalid UTF-8 at byte {error.start + 1} of the line (0x{data[error.start]:02x}). "
            f"Expected UTF-8 text; {hint}."
        )


def _parse(item: str | DataError, kind: str, columns: tuple[str, ...], where: str) -> Example | DataError:
    if isinstance(item, DataError):
        return item
    try:
        values = _json_values(item, columns) if kind == "jsonl" else _tsv_values(item, columns)
        return Located.at(where, _checked(values))
    except DataError as error:
        return DataError(f"{where}: {error}")


def _tsv_values(line: str, columns: tuple[str, ...]) -> Example:
    values = line.split("\t")
    if len(values) == len(columns):
        return dict(zip(columns, values, strict=True))
    wrong = "a tab is missing" if len(values) < len(columns) else "there are too many tabs"
    mend = "separate columns by one tab" if len(values) < len(columns) else "keep the first columns (cut -f)"
    raise DataError(
        f"{wrong}: {len(values)} column(s) in {_cut(line)!r}. Expected {len(columns)} ({', '.join(columns)}); {mend}."
    )


def _json_values(line: str, columns: tuple[str, ...]) -> Example:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"broken JSON ({error}) in {_cut(line)!r}. Expected one JSON object a line; write each with json.dumps."
        ) from error
    if not isinstance(record, dict):
        raise DataError(
            f"the JSON value is {_cut(line)!r}. Expected an object with the keys {', '.join(columns)}; wrap it in one."
        )
    missing = [column for column in columns if column not in record]
    if missing:
        raise DataError(
            f"the key {missing[0]!r} is missing. Expected {', '.join(columns)}, received {_cut(', '.join(record))}; "
            "rename or add the key."
        )
    return {column: record[column] for column in columns}


def _checked(values: dict) -> Example:
    for column, value in values.items():
        if not isinstance(value, str):
            raise DataError(f"{column!r} is {_cut(json.dumps(value))}. Expected a string; put it in quotes.")
        if not value.strip():
            raise DataError(f"{column!r} is empty. Expected text; fill it in or delete the line.")
        try:
            value.encode()
        except UnicodeEncodeError:  # only a JSON escape can say so
            raise DataError(
                f"{column!r} holds half a surrogate pair. Expected valid Unicode; mend the \\u escape."
            ) from None
    return values


def _parallel_rows(files: list[PathLike], columns: tuple[str, ...], limits: Limits) -> Iterator[Example | DataError]:
    counts = [0] * len(files)
    rows = zip_longest(*(_lines(file, limits) for file in files))
    for row in rows:
        for index, cell in enumerate(row):
            counts[index] += cell is not None
        if None in row:
            continue  # one file has ended: only count on, for the message below
        texts = [text for _, text in row]
        yield next((text for text in texts if isinstance(text, DataError)), None) or _parallel_example(
            texts, files, columns, counts[0]
        )
    if len(set(counts)) > 1:
        listed = ", ".join(f"{_name(file)} has {count}" for file, count in zip(files, counts, strict=True))
        raise DataError(
            f"Parallel files must have the same number of lines: {listed}. Line n of each file must be one example; "
            "find the first line that is out of step."
        )


def _parallel_example(
    texts: list[str], files: list[PathLike], columns: tuple[str, ...], number: int
) -> Example | DataError:
    for text, file, column in zip(texts, files, columns, strict=True):
        try:
            _checked({column: text})
        except DataError as error:
            return DataError(f"{_name(file)}:{number}: {error}")
    return Located.at(f"{_name(files[0])}:{number}", dict(zip(columns, texts, strict=True)))


def _cut(text: str) -> str:
    """The text, at most 60 characters of it."""
    return text if len(text) <= 60 else text[:57] + "..."

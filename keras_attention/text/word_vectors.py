"""Pretrained word vectors, read from the files in which GloVe and word2vec are given away."""

from __future__ import annotations

import dataclasses
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["VectorError", "WordVectors"]

_MAX_WORD_BYTES = 1000
_MAX_DIMENSIONS = 10_000


class VectorError(ValueError):
    """A file of vectors that is damaged, or not what it was said to be."""


@dataclasses.dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Attributes:
        words: tuple of str, each once.
        vectors: float32 (words, D).
    """

    words: tuple[str, ...]
    vectors: np.ndarray

    @property
    def dimensions(self) -> int:
        return self.vectors.shape[1]

    @classmethod
    def load(
        cls, path: str | os.PathLike, format: str = "", limit: int | None = None, dimensions: int | None = None
    ) -> WordVectors:
        """Reads a file of vectors, plain or gzipped.

        Args:
            path: path.
            format: "glove" (a word and its numbers a line), "word2vec" (the same below a line with both counts) or
                "word2vec_binary"; "" tells it from the file.
            limit: int > 0. Reads no more than this many words.
            dimensions: int. The width that is wanted; None takes what the file has.

        Raises:
            FileNotFoundError: there is no such file.
            VectorError: a broken line, named as `file:line`, another width than was wanted, or a truncated file.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}. Give one in the format of GloVe or word2vec.")
        readers = {"glove": _glove, "word2vec": _word2vec, "word2vec_binary": _word2vec_binary}
        if format and format not in readers:
            raise ValueError(f"`format` must be one of {', '.join(map(repr, readers))}. Received {format!r}.")
        words: dict[str, None] = {}
        rows = []
        try:
            with _open(path) as file:
                for word, row in readers[format or _told(path)](path, file, dimensions):
                    if word not in words:  # the first one counts, as in gensim
                        words[word] = None
                        rows.append(row)
                    if limit is not None and len(rows) == limit:
                        break
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise VectorError(f"{path} cannot be read to its end: {error}. Copy it again.") from error
        if not rows:
            raise VectorError(f"{path} holds no vector. Expected a word and its numbers on each line.")
        return cls(tuple(words), np.stack(rows))

    def matrix(self, words: Any, start: np.ndarray) -> tuple[np.ndarray, int]:
        """An embedding matrix with the vectors of the words that have one.

        Args:
            words: list of str. One a row; a word that is not found is looked for in lower case too.
            start: float (len(words), D). What the other rows keep.

        Returns:
            float32 (len(words), D), and how many words were found.

        Raises:
            ValueError: `start` has another shape.
        """
        words = list(words)
        if start.shape != (len(words), self.dimensions):
            raise ValueError(
                f"`start` must be {(len(words), self.dimensions)}, a row for each word, as wide as the vectors. "
                f"Received {start.shape}. Choose embeddings of width {self.dimensions}, or other vectors."
            )
        places = {word: place for place, word in enumerate(self.words)}
        filled, found = np.array(start, np.float32), 0
        for row, word in enumerate(words):
            place = places.get(word, places.get(word.lower()))
            if place is not None:
                filled[row] = self.vectors[place]
                found += 1
        return filled, found


def _open(path: Path):
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")


def _told(path: Path) -> str:
    """The format of a file, by its first lines."""
    with _open(path) as file:
        first = file.readline(_MAX_WORD_BYTES + 32 * _MAX_DIMENSIONS)
        counts = first.split()
        if len(counts) != 2 or not all(one.isdigit() for one in counts):
            return "glove"
        second = file.readline(_MAX_WORD_BYTES + 32 * _MAX_DIMENSIONS)
    parts = second.split(b" ")
    try:
        [float(one) for one in parts[1:] if one.strip()]
        return "word2vec" if len(parts) > int(counts[1]) else "word2vec_binary"
    except ValueError:
        return "word2vec_binary"


def _glove(path: Path, file, dimensions: int | None, first: int = 1) -> Iterator[tuple[str, np.ndarray]]:
    for number, line in enumerate(file, start=first):
        where = f"{path}:{number}"
        try:
            text = line.decode("utf-8").rstrip("\r\n").rstrip(" ")
        except UnicodeDecodeError as error:
            raise VectorError(f"{where}: not UTF-8: {error.reason}. Is it a binary file?") from error
        if not text:
            continue
        parts = text.split(" ")
        if dimensions is None:
            dimensions = len(parts) - 1
            _check_dimensions(where, dimensions)
        # GloVe's largest files have a few words with spaces in them
        word, numbers = " ".join(parts[: len(parts) - dimensions]), parts[len(parts) - dimensions :]
        if not word or len(parts) <= dimensions or len(word.encode()) > _MAX_WORD_BYTES:
            raise VectorError(
                f"{where}: expected a word and {dimensions} numbers. Received {len(parts) - 1} numbers behind "
                f"{parts[0][:40]!r}. Is the width right, and the file whole?"
            )
        yield word, _numbers(where, numbers)


def _word2vec(path: Path, file, dimensions: int | None) -> Iterator[tuple[str, np.ndarray]]:
    count, width = _counts(path, file, dimensions)
    seen = 0
    for word, row in _glove(path, file, width, first=2):
        seen += 1
        if len(row) != width or " " in word:
            raise VectorError(f"{path}:{seen + 1}: expected one word and {width} numbers. Received {word[:40]!r}.")
        yield word, row
    if seen != count:
        raise VectorError(f"{path} says that it has {count} words, but has {seen}. Copy it again.")


def _word2vec_binary(path: Path, file, dimensions: int | None) -> Iterator[tuple[str, np.ndarray]]:
    count, width = _counts(path, file, dimensions)
    for place in range(count):
        word = bytearray()
        while (byte := file.read(1)) != b" ":
            if not byte or len(word) > _MAX_WORD_BYTES:
                raise VectorError(f"{path} ends, or is damaged, at word {place + 1} of {count}. Copy it again.")
            if byte != b"\n":  # some writers end each vector with one
                word += byte
        data = file.read(4 * width)
        row = np.frombuffer(data, "<f4") if len(data) == 4 * width else np.array([np.nan])
        if not np.isfinite(row).all():
            raise VectorError(f"{path} ends, or is damaged, at word {place + 1} of {count}. Copy it again.")
        yield word.decode("utf-8", errors="replace"), row.astype(np.float32)


def _counts(path: Path, file, dimensions: int | None) -> tuple[int, int]:
    """The first line of a word2vec file: how many words, how wide."""
    first = file.readline(100).split()
    if len(first) != 2 or not all(one.isdigit() for one in first):
        raise VectorError(f"{path}:1: expected the number of words and of dimensions. Is it in GloVe's format?")
    count, width = map(int, first)
    _check_dimensions(f"{path}:1", width)
    if dimensions is not None and width != dimensions:
        raise VectorError(f"{path}:1: its vectors have {width} dimensions. Expected {dimensions}.")
    return count, width


def _check_dimensions(where: str, dimensions: int) -> None:
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise VectorError(
            f"{where}: expected a word and 1 to {_MAX_DIMENSIONS} numbers. Received {dimensions} numbers."
        )


def _numbers(where: str, parts: list[str]) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array([float(one) for one in parts], np.float32)
    except ValueError as error:
        raise VectorError(f"{where}: {error}. Expected numbers behind the word.") from error
    if not np.isfinite(row).all():
        raise VectorError(f"{where}: a number is not finite, or too large for float32.")
    return row

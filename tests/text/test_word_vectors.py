from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.text import VectorError, WordVectors
from tests.shared_data import shared_data

GLOVE = "the 0.5 -1 2\n, 1 1 1\nNew York 3 4 5\nthe 9 9 9\n"
ROWS = {"the": [0.5, -1, 2], ",": [1, 1, 1], "café": [3, 4, 5]}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def binary(rows, line_ends=True):
    body = b"".join(word.encode() + b" " + struct.pack("<3f", *row) + b"\n" * line_ends for word, row in rows.items())
    return f"{len(rows)} 3\n".encode() + body


def as_text(rows):
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items())


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("glove", as_text(ROWS).encode()),
        ("word2vec", f"3 3\n{as_text(ROWS)}".encode()),
        ("word2vec_binary", binary(ROWS)),
        ("word2vec_binary", binary(ROWS, line_ends=False)),
    ],
)
def test_each_format_gives_the_same_vectors(tmp_path, name, data, zipped):
    path = write(tmp_path / "vectors", gzip.compress(data) if zipped else data)
    for format in (name, ""):
        found = WordVectors.load(path, format)
        assert found.words == tuple(ROWS)
        np.testing.assert_array_equal(found.vectors, np.array(list(ROWS.values()), np.float32))
        assert found.dimensions == 3 and found.vectors.dtype == np.float32


def test_words_with_spaces_and_words_that_come_twice(tmp_path):
    path = write(tmp_path / "vectors.txt", GLOVE)
    found = WordVectors.load(path, "glove", dimensions=3)
    assert found.words == ("the", ",", "New York")
    np.testing.assert_array_equal(found.vectors[0], [0.5, -1, 2])
    assert WordVectors.load(path, "glove", limit=2).words == ("the", ",")


def test_a_matrix_has_the_vectors_that_were_found(tmp_path):
    found = WordVectors.load(write(tmp_path / "v", as_text(ROWS)))
    start = np.arange(12, dtype=np.float32).reshape(4, 3)
    matrix, count = found.matrix(["zzz", "The", ",", "Cafe"], start)
    assert count == 2
    np.testing.assert_array_equal(matrix, [[0, 1, 2], ROWS["the"], ROWS[","], [9, 10, 11]])
    np.testing.assert_array_equal(start[1], [3, 4, 5])
    with pytest.raises(ValueError, match=r"`start` must be \(2, 3\).*Received \(2, 4\). Choose embeddings of width 3"):
        found.matrix(["a", "b"], np.zeros((2, 4)))


BROKEN = {
    "a line too short": (
        "the 1 2 3\nof 1 2\n",
        {},
        r"v:2: expected a word and 3 numbers. Received 2 numbers behind 'of'",
    ),
    "no number": ("the 1 2 3\nof 1 x 3\n", {}, r"v:2: could not convert.*'x'"),
    "not finite": ("the 1 2 3\nof 1 nan 3\n", {}, "v:2: a number is not finite"),
    "too large": ("the 1 2 3\nof 1 1e99 3\n", {}, "v:2: a number is not finite, or too large"),
    "not UTF-8": (b"the 1 2 3\n\xff\xfe 1 2 3\n", {}, "v:2: not UTF-8"),
    "wider than wanted": ("the 1 2 3\n", {"dimensions": 5}, "v:1: expected a word and 5 numbers. Received 3"),
    "empty": ("", {}, "holds no vector"),
    "one word alone": ("word\n", {}, "v:1: expected a word and 1 to 10000 numbers"),
    "another width": ("3 3\n" + as_text(ROWS), {"dimensions": 4}, "v:1: its vectors have 3 dimensions. Expected 4"),
    "fewer words": ("4 3\n" + as_text(ROWS), {}, "says that it has 4 words, but has 3"),
    "no counts": (as_text(ROWS), {"format": "word2vec"}, "v:1: expected the number of words and of dimensions"),
    "truncated": (binary(ROWS)[:-7], {}, "ends, or is damaged, at word 3 of 3"),
    "truncated gz": (gzip.compress(as_text(ROWS).encode() * 50)[:-20], {}, "cannot be read to its end"),
    "huge width": (b"1 99999999\nx " + b"0" * 50, {"format": "word2vec_binary"}, "1 to 10000 numbers"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named(tmp_path, case):
    data, options, message = case
    with pytest.raises(VectorError, match=message):
        WordVectors.load(write(tmp_path / "v", data), **options)


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        WordVectors.load(tmp_path / "none")
    with pytest.raises(ValueError, match="`format` must be one of 'glove'"):
        WordVectors.load(write(tmp_path / "v", GLOVE), "fasttext")


@given(data=st.binary(max_size=300))
def test_any_file_is_read_or_refused(tmp_path_factory, data):
    path = write(tmp_path_factory.getbasetemp() / "any", data)
    try:
        found = WordVectors.load(path)
    except VectorError:
        return
    assert np.isfinite(found.vectors).all() and len(found.words) == len(found.vectors)


def test_real_glove_vectors_are_read():
    path = shared_data("glove-6b-50d-20k") / "glove.6B.50d.top20k.txt.gz"
    found = WordVectors.load(path, limit=1000)
    assert found.dimensions == 50 and found.words[0] == "the" and len(found.words) == 1000
    np.testing.assert_allclose(found.vectors[0, :3], [0.418, 0.24968, -0.41242])

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.text import SentencePieceTokenizer
from keras_attention.text import sentencepiece_model as files


@pytest.fixture(scope="module")
def model(tokenizer) -> files.SentencePieceModel:
    return files.read_model(tokenizer.model_bytes, "model")


def replaced(model, **changes) -> bytes:
    fields = {"pieces": model.pieces, "scores": model.scores, "charsmap": model.charsmap, **changes}
    return files.write_model(files.SentencePieceModel(**fields))


def test_reading_what_was_written_gives_the_same(tokenizer, model):
    assert files.write_model(model) == tokenizer.model_bytes
    assert model.pieces == tuple(tokenizer.tokens(range(tokenizer.vocabulary_size)))


def test_fields_of_no_use_are_left_out(tokenizer):
    extra = b"\x22\x05hello" + b"\xa2\x06\x03abc"  # self_test_data, and a field of the future
    assert SentencePieceTokenizer.from_bytes(tokenizer.model_bytes + extra).model_bytes == tokenizer.model_bytes


def test_a_damaged_file_is_named(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    path = tmp_path / "sentencepiece.model"
    path.write_bytes(tokenizer.model_bytes[:-3])
    with pytest.raises(ValueError, match=re.escape(str(path)) + " is not a usable SentencePiece model: .*truncated"):
        SentencePieceTokenizer.load(tmp_path)


def test_a_large_file_is_refused_unread(tmp_path):
    with (tmp_path / "sentencepiece.model").open("wb") as file:
        file.truncate(200 * 2**20)
    with pytest.raises(ValueError, match="the limit is 16777216"):
        SentencePieceTokenizer.load(tmp_path)


@given(cut=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(tokenizer, cut):
    data = tokenizer.model_bytes
    with pytest.raises(ValueError, match="not a usable SentencePiece model"):
        SentencePieceTokenizer.from_bytes(data[: int(cut * len(data))])


@given(st.binary(max_size=300))
def test_random_files_are_refused(data):
    with pytest.raises(ValueError, match="not a usable SentencePiece model"):
        SentencePieceTokenizer.from_bytes(data)


def test_bit_flips_never_crash_native_code(tokenizer, tmp_path):
    """In a process of its own: a crash there is an exit code here."""
    tokenizer.save(tmp_path)
    code = f"""
        import pathlib, random
        from keras_attention.text import SentencePieceTokenizer, sentencepiece_model
        data = pathlib.Path({str(tmp_path / "sentencepiece.model")!r}).read_bytes()
        charsmap = sentencepiece_model.read_model(data, "").charsmap
        start = data.index(charsmap)
        texts = ["Où est la bibliothèque ?", "e\\u0301\\u0323\\u200b\\u2581", "".join(map(chr, range(1, 0x3000)))]
        random_ = random.Random(7)
        refused = accepted = 0
        for trial in range(600):
            damaged = bytearray(data)
            where = range(len(data)) if trial % 2 else range(start, start + len(charsmap))
            for _ in range(random_.choice([1, 1, 4])):
                damaged[random_.choice(where)] ^= 1 << random_.randrange(8)
            try:
                tokenizer = SentencePieceTokenizer.from_bytes(bytes(damaged))
            except ValueError:
                refused += 1
                continue
            accepted += 1
            for text in texts:
                tokenizer.decode(tokenizer.encode(text))
        assert refused > 50 and accepted > 50, (refused, accepted)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


@pytest.mark.parametrize("name", ["nan", "inf", "-1e9"])
def test_scores_that_are_no_log_probability_are_refused(model, name):
    with pytest.raises(ValueError, match="no log probability"):
        files.read_model(replaced(model, scores=(*model.scores[:-1], float(name))), "model")


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("", "no text of 1 to 256 bytes"),
        ("x" * 300, "no text of 1 to 256 bytes"),
        ("a b", "holds a space or a control"),
        ("a\x00", "holds a space or a control"),
        ("<s>", "occurs twice"),
    ],
)
def test_bad_pieces_are_refused(model, piece, message):
    with pytest.raises(ValueError, match=message):
        files.read_model(replaced(model, pieces=(*model.pieces[:-1], piece)), "model")


def test_other_special_pieces_are_refused(model):
    with pytest.raises(ValueError, match="piece 0 is '<mask>', expected '<pad>'"):
        files.read_model(replaced(model, pieces=("<mask>", *model.pieces[1:])), "model")
    with pytest.raises(ValueError, match="it has 4 pieces, at least 5 are needed"):
        files.read_model(replaced(model, pieces=model.pieces[:4], scores=model.scores[:4]), "model")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [(35, 1, "byte_fallback is 1"), (40, 0, "unk_id is 0"), (43, 7, "pad_id is 7")],
)
def test_other_kinds_of_model_are_refused(model, monkeypatch, field, value, message):
    with monkeypatch.context() as patch:
        name, default, _ = files._TRAINER_FIELDS[field]
        patch.setitem(files._TRAINER_FIELDS, field, (name, default, value))
        data = files.write_model(model)
    with pytest.raises(ValueError, match=message):
        files.read_model(data, "model")


def test_another_type_of_model_is_refused(model):
    data = replaced(model, model_type=2)  # byte pairs
    for model_type in (files.UNIGRAM, files.WORD):
        with pytest.raises(ValueError, match=f"model_type is 2, only {model_type} is supported"):
            files.read_model(data, "model", model_type)


def trie(units: dict[int, int], size: int = 256, replacements: bytes = b"a\0") -> bytes:
    table = [units.get(index, 1 << 31) for index in range(size)]  # no label: a value
    return struct.pack(f"<I{size}I", 4 * size, *table) + replacements


@pytest.mark.parametrize(
    ("charsmap", "message"),
    [
        (b"", "no normalization rules"),
        (b"\x00\x04\x00\x00", "rules are damaged"),
        (trie({}, replacements=b"a"), "rules are damaged"),
        (trie({}, replacements=b"a" * 100 + b"\0"), "rules are damaged"),
        (trie({0: 300 << 10}), "rules are damaged"),  # children outside the table
        (trie({0: 1 << 10 | 0x100, 1: 1 << 31 | 1}), "rules are damaged"),  # a value inside a replacement
        (trie({0: 1 << 10 | 0x100, 1: 1 << 31 | 9}), "rules are damaged"),  # a value behind them
        (trie({0: 1 << 10, ord("a") ^ 1: ord("a") | ord("a") << 10}), "longer than 31 bytes"),  # a rule for "aaa…"
    ],
)
def test_tries_that_lead_outside_are_refused(model, charsmap, message):
    with pytest.raises(ValueError, match=message):
        files.read_model(replaced(model, charsmap=charsmap), "model")


def test_numbers_without_end_and_negative_lengths_are_refused():
    random_ = random.Random(3)
    for data in (b"\xff" * 12, b"\x0a" + b"\xff" * 9 + b"\x01", b"\x00\x01", b"\x0b", random_.randbytes(2000)):
        with pytest.raises(ValueError, match=r"protobuf|truncated|not a message"):
            files.read_model(data, "model")

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention import text
from keras_attention.text import SentencePieceTokenizer, normalize
from keras_attention.text.normalize import DROPPED, SPACES
from tests.text.conftest import SENTENCES, VOCABULARY_SIZE

LETTERS = sorted(set("".join(map(normalize, SENTENCES))) - {" "})


def test_public_names():
    assert text.__all__ == ["SentencePieceTokenizer", "VectorError", "WordTokenizer", "WordVectors", "normalize"]


def test_import_loads_no_heavy_library():
    heavy = {"tensorflow", "tensorflow_text", "keras", "sentencepiece"}
    code = f"import sys, keras_attention.text; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


def test_special_ids(tokenizer):
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id) == (0, 1, 2, 3)
    assert tokenizer.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.vocabulary_size == VOCABULARY_SIZE


def test_ordinary_text_survives(tokenizer, sentences):
    for sentence in sentences:
        ids = tokenizer.encode(sentence)
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(ids) == normalize(sentence)
        assert "".join(tokenizer.tokens(ids)).replace("▁", " ").strip() == normalize(sentence)


def test_frequent_words_are_one_piece(tokenizer):
    assert tokenizer.tokens(tokenizer.encode("library library")) == ["▁library", "▁library"]


@given(st.text(st.sampled_from([*LETTERS, *map(chr, SPACES), *map(chr, DROPPED), " "])))
def test_any_text_of_known_characters_survives(tokenizer, value):
    assert tokenizer.decode(tokenizer.encode(normalize(value))) == normalize(value)


@given(st.text())
def test_normalized_text_is_left_alone_by_the_model(tokenizer, value):
    normal = normalize(value)
    assert tokenizer._processor.normalize(normal) == ("▁" + normal.replace(" ", "▁") if normal else "")


@pytest.mark.parametrize("value", ["caf\u00e9", "cafe\u0301", " caf\u00e9\u200b", "\u2581cafe\u0301\u00ad"])
def test_spellings_of_one_text_have_the_same_ids(tokenizer, value):
    assert tokenizer.encode(value) == tokenizer.encode("café")


@given(st.lists(st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<0x41>", " ", "\x00", "\u2581", "a"])).map("".join))
def test_no_text_gives_a_control_id(tokenizer, value):
    assert not {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id} & set(tokenizer.encode(value))


def test_unknown_characters_are_unk(tokenizer):
    assert tokenizer.tokens(tokenizer.encode("a漢字b"))[1:-1] == ["<unk>"]
    assert tokenizer.decode(tokenizer.encode("a漢字b")) == "a ⁇ b"
    assert tokenizer.encode("\ud83d") == tokenizer.encode("\x00") == tokenizer.encode("\ufffd")


def test_empty_and_blank_text_have_no_ids(tokenizer):
    assert tokenizer.encode("") == tokenizer.encode(" \u00a0\u200b\u2581\n") == []
    assert tokenizer.decode([]) == ""


def test_long_runs(tokenizer):
    for unit in ("a", "the ", "  ", "漢", "\u0301", "e\u0301"):
        value = unit * 20_000
        assert tokenizer.encode(value) == tokenizer.encode(normalize(value))


def test_decode_drops_padding_and_start_and_stops_at_end(tokenizer):
    ids = tokenizer.encode("the library")
    after = tokenizer.encode("garden")
    assert tokenizer.decode([0, 2, *ids, 0, 3, *after]) == "the library"
    assert tokenizer.decode(np.array([2, *ids, 3], np.int32)) == "the library"
    assert tokenizer.decode([3, *ids]) == ""


def test_decode_joins_spaces(tokenizer):
    (space,) = {i for i in range(tokenizer.vocabulary_size) if tokenizer.tokens([i]) == ["▁"]}
    (word,) = tokenizer.encode("library")
    assert tokenizer.decode([space, space, word, space, 1, space, word, space]) == "library ⁇ library"


@pytest.mark.parametrize("bad", [-1, VOCABULARY_SIZE, 2**40])
def test_ids_outside_the_vocabulary_are_refused(tokenizer, bad):
    for method in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(ValueError, match=rf"id {bad} is not in the .* expected 0 to {VOCABULARY_SIZE - 1}"):
            method([5, bad])


def test_kinds_are_checked(tokenizer):
    with pytest.raises(TypeError, match=r"`text` must be a str\. Received list"):
        tokenizer.encode(["a"])
    with pytest.raises(TypeError, match="float"):
        tokenizer.decode([1.5])
    with pytest.raises(TypeError, match=r"`model` must be bytes\. Received str"):
        SentencePieceTokenizer.from_bytes("model")


def test_save_and_load_give_the_same_tokenizer(tokenizer, sentences, tmp_path):
    tokenizer.save(tmp_path / "preset" / "tokenizer")
    file = tmp_path / "preset" / "tokenizer" / "sentencepiece.model"
    assert file.read_bytes() == tokenizer.model_bytes
    for other in (
        SentencePieceTokenizer.load(tmp_path / "preset" / "tokenizer"),
        SentencePieceTokenizer.from_bytes(tokenizer.model_bytes),
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert other.model_bytes == tokenizer.model_bytes
        assert [other.encode(s) for s in sentences] == [tokenizer.encode(s) for s in sentences]


def test_load_names_the_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"sentencepiece\.model"):
        SentencePieceTokenizer.load(tmp_path)


def test_training_is_deterministic_and_leaves_no_path_in_the_model(tokenizer):
    code = (
        "import sys, tests.text.conftest as c\nfrom keras_attention.text import SentencePieceTokenizer\n"
        "sys.stdout.buffer.write(SentencePieceTokenizer.train(iter(c.SENTENCES), c.VOCABULARY_SIZE).model_bytes)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert result == tokenizer.model_bytes
    assert b"rules.tsv" not in result


def test_numbers_do_not_end_in_the_vocabulary():
    tokenizer = SentencePieceTokenizer.train(["call 5551234 or 5551234 now", "no, call 5551234"] * 5, 19)
    assert not [p for p in tokenizer.tokens(range(19)) if sum(map(str.isdigit, p)) > 1]


def test_training_on_one_string_is_refused():
    with pytest.raises(TypeError, match="Received one str"):
        SentencePieceTokenizer.train("a sentence", 10)
    with pytest.raises(TypeError, match="Received bytes"):
        SentencePieceTokenizer.train([b"a sentence"], 10)


@pytest.mark.parametrize("empty", [[], [""], [" \u00a0", "\u200b"], ["\x00"]])
def test_training_on_nothing_is_refused(empty):
    with pytest.raises(ValueError, match="holds no text"):
        SentencePieceTokenizer.train(empty, 10)


def test_sizes_that_do_not_fit_name_the_limits():
    corpus = ["hello world", "the cat"]
    with pytest.raises(ValueError, match=r"`vocabulary_size` 1000 does not fit .* allows at most 16"):
        SentencePieceTokenizer.train(corpus, 1000)
    with pytest.raises(ValueError, match=r"`vocabulary_size` 6 does not fit .* needs at least 15"):
        SentencePieceTokenizer.train(corpus, 6)
    with pytest.raises(ValueError, match=r"must be above 4, the special pieces\. Received 4"):
        SentencePieceTokenizer.train(corpus, 4)
    with pytest.raises(ValueError, match=r"must be in \[0.98, 1\]. Received 0.5"):
        SentencePieceTokenizer.train(corpus, 16, character_coverage=0.5)
    assert [SentencePieceTokenizer.train(corpus, size).vocabulary_size for size in (15, 16)] == [15, 16]

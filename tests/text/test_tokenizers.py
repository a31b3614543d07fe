from __future__ import annotations

import pytest

from keras_attention.text import SentencePieceTokenizer, WordTokenizer
from keras_attention.text.tokenizers import load_tokenizer, tokenizer_class


def test_the_file_tells_the_kind(tmp_path):
    pieces, words = SentencePieceTokenizer.train(["to be", "or not to be"], 12), WordTokenizer.from_words(["be", "to"])
    pieces.save(tmp_path / "pieces")
    words.save(tmp_path / "words")
    for name, tokenizer in (("pieces", pieces), ("words", words)):
        found = load_tokenizer(tmp_path / name)
        assert type(found) is type(tokenizer) and found.model_bytes == tokenizer.model_bytes


def test_a_folder_with_none_or_two_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no sentencepiece\.model or words\.model in"):
        load_tokenizer(tmp_path)
    SentencePieceTokenizer.train(["to be", "or not to be"], 12).save(tmp_path)
    WordTokenizer.from_words(["be", "to"]).save(tmp_path)
    with pytest.raises(ValueError, match="holds more than one of"):
        load_tokenizer(tmp_path)


def test_names():
    assert tokenizer_class("word") is WordTokenizer
    with pytest.raises(ValueError, match="Unknown tokenizer 'piece'"):
        tokenizer_class("piece")

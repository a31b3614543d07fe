from __future__ import annotations

import copy

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.text import SentencePieceTokenizer, WordTokenizer
from keras_attention.text.word_rules import BETWEEN

TEXTS = ["It isn't here.", "Is it? The U.S. costs 1,000 dollars.", "The café isn’t well-known, is it?"]

WORDS = {  # by hand, as the Penn Treebank splits them
    "It isn't here.": ["it", "is", "n't", "here", "."],
    "I'm sure he'd say we're late; they've gone": "i 'm sure he 'd say we 're late ; they 've gone",
    "he'll, if he'll": "he 'll , if he 'll",
    "DON'T! What's": ["do", "n't", "!", "what", "'s"],
    "\u201cDon\u2019t,\u201d she said.": ['"', "do", "n't", ",", '"', "she", "said", "."],
    "3.14 or 1,000 (a well-known one)": ["3.14", "or", "1,000", "(", "a", "well-known", "one", ")"],
    "Wait... what": ["wait", "...", "what"],
    "'some' dogs' bones": ["'", "some", "'", "dogs", "'", "bones"],
    "a\u00a0b\tc  d": ["a", "b", "c", "d"],
    "CAFE\u0301": ["caf\u00e9"],
    "$5, 20%": ["$", "5", ",", "20", "%"],
    " ": [],
    f"a{BETWEEN}b": ["ab"],
}


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer.train(TEXTS)


@pytest.mark.parametrize("text", WORDS)
def test_texts_fall_into_words(tokenizer, text):
    wanted = WORDS[text]
    assert tokenizer.words(text) == (wanted.split(" ") if isinstance(wanted, str) else wanted)


def test_known_words_get_their_ids_and_each_other_one_is_unknown(tokenizer):
    ids = tokenizer.encode("It isn't zzz yyy, here")
    assert tokenizer.tokens(ids) == ["it", "is", "n't", "<unk>", "<unk>", ",", "here"]
    assert tokenizer.decode([2, *ids, 3, 5]) == "it is n't <unk> <unk> , here"


def test_frequent_words_come_first(tokenizer):
    assert tokenizer.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.tokens(range(4, 7)) == ["is", ".", "it"]  # four times, three, three
    small = WordTokenizer.train(TEXTS, 6)
    assert small.vocabulary_size == 6 and small.tokens(range(4, 6)) == ["is", "."]
    assert WordTokenizer.train(TEXTS, min_count=3).vocabulary_size == 7


def test_words_that_are_split_already_get_one_id_each(tokenizer):
    assert tokenizer.tokens(tokenizer.encode_words(["It", "The", "isn't", "1,000", "Zzz", "<s>", "▁it"])) == [
        "it",
        "the",
        "<unk>",
        "1,000",
        "<unk>",
        "<unk>",
        "it",
    ]


@given(st.lists(st.text(), max_size=5))
def test_the_graph_gives_the_same_ids(tokenizer, texts):
    wanted = [tokenizer.encode(text) for text in texts]
    encoded = tf.constant([text.encode("utf-8", "replace") for text in texts], tf.string, shape=[len(texts)])
    assert tokenizer.graph_encode(encoded).to_list() == wanted


@given(st.text(st.sampled_from("ab'’\"”.,!?-nNtTsSmdrevl019 \t(…")))
def test_the_graph_gives_the_same_ids_for_what_the_rules_are_about(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.graph_encode(tf.constant([text])).to_list() == [ids]
    assert len(ids) == len(tokenizer.words(text))
    assert "".join(tokenizer.words(text)) == "".join(text.lower().replace("’", "'").replace("”", '"').split())


@given(st.text())
def test_no_text_gives_an_id_that_is_no_word(tokenizer, text):
    assert all(index == 1 or 4 <= index < tokenizer.vocabulary_size for index in tokenizer.encode(text))


def test_options_decide_what_a_word_is():
    cased = WordTokenizer.train(["The 1984 DON'T"], lowercase=False)
    assert cased.words("The DON'T 7") == ["The", "DO", "N'T", "7"]
    masked = WordTokenizer.train(["In 1984, 3.5"], mask_digits=True)
    assert masked.words("In 2031, 3.5 x7") == ["in", "0000", ",", "0.0", "x0"]
    assert not any(
        character in word for word in masked.tokens(range(masked.vocabulary_size)) for character in "123456789"
    )


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = WordTokenizer.load(tmp_path)
    assert again.model_bytes == tokenizer.model_bytes == copy.deepcopy(tokenizer).model_bytes
    assert again.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])


def test_further_words_come_behind_those_that_are_known(tokenizer):
    words = ["zebra", "ISN'T", "Here", "zebra", "n't", "two words", "", "x" * 81, "Quagga"]
    wider = tokenizer.extended(words)
    size = tokenizer.vocabulary_size
    assert wider.vocabulary_size == size + 2
    assert wider.tokens([size, size + 1]) == ["zebra", "quagga"]
    assert wider.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])
    assert wider.encode("A quagga isn't a Zebra") == [1, size + 1, *tokenizer.encode("isn't"), 1, size]
    assert wider.graph_encode(tf.constant(["A quagga isn't a Zebra"])).to_list() == [
        wider.encode("A quagga isn't a Zebra")
    ]
    assert wider.extended(words).model_bytes == wider.model_bytes


def test_the_other_kind_of_model_is_refused(tokenizer):
    pieces = SentencePieceTokenizer.train(["to be", "or not to be"], 12)
    with pytest.raises(ValueError, match="its model_type is 1, only 3 is supported.*WordTokenizer.save"):
        WordTokenizer(pieces.model_bytes)
    with pytest.raises(ValueError, match="its model_type is 3, only 1 is supported.*SentencePieceTokenizer.save"):
        SentencePieceTokenizer(tokenizer.model_bytes)
    with pytest.raises(ValueError, match="not a usable SentencePiece model"):
        WordTokenizer(tokenizer.model_bytes[:-100])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WordTokenizer.train("one"), TypeError, "Received one str. Pass text.splitlines"),
        (lambda: WordTokenizer.train([]), ValueError, "No word is left of 0"),
        (lambda: WordTokenizer.train(["a b"], min_count=2), ValueError, "No word is left of 2 with min_count=2"),
        (lambda: WordTokenizer.from_words(["a", "a"]), ValueError, "each once. Received 'a'"),
        (lambda: WordTokenizer.from_words(["a b"]), ValueError, "without a space. Received 'a b'"),
        (lambda: WordTokenizer.from_words([""]), ValueError, "1 to 80 characters"),
        (lambda: WordTokenizer.from_words(["x" * 5000]), ValueError, "1 to 80 characters"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_huge_word_and_a_long_text_are_read(tokenizer):
    assert tokenizer.encode("x" * 5000) == [1]
    assert len(tokenizer.encode("is it " * 20000)) == 40000


def test_a_text_that_is_none_is_refused(tokenizer):
    with pytest.raises(TypeError, match="`text` must be a str. Received int"):
        tokenizer.encode(3)

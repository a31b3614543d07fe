from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.models.word_features import (
    AFFIXES,
    FORMS,
    SHAPES,
    form_ids,
    graph_form_ids,
    graph_surface_words,
    surface_words,
    written_form,
)
from keras_attention.text import WordTokenizer

BUCKETS = 97
OTHER = WordTokenizer.from_words(["a"], lowercase=True, mask_digits=True)
WORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
TEXTS = st.text(
    st.one_of(st.sampled_from("aAzZéÉ09 .,'’n't[]-@#\u2581\u2582\u200b\t"), st.characters(blacklist_categories=["Cs"])),
    max_size=30,
)


def named(word):
    return dict(zip(FORMS, form_ids(word, BUCKETS), strict=True))


def polynomial(text, from_end, size):
    """The hash as a sum of powers, in whole numbers of any size: not step by step, as the library has it."""
    points = [2 * size + from_end, *map(ord, text)]
    return sum(point * 65599**power for power, point in enumerate(reversed(points))) % (2**31 - 1)


@pytest.mark.parametrize("word", ["Walking", "walking", "WALKING"])
def test_affixes_are_hashed_without_case(word):
    parts = {"prefix_1": "w", "prefix_3": "wal", "suffix_2": "ng", "suffix_3": "ing", "suffix_4": "king"}
    for name, text in parts.items():
        assert named(word)[name] == 1 + polynomial(text, *AFFIXES[name]) % BUCKETS


def test_a_short_word_is_its_own_affix_and_all_digits_are_alike():
    assert named("to")["suffix_4"] == 1 + polynomial("to", True, 4) % BUCKETS
    assert form_ids("1984", BUCKETS) == form_ids("2026", BUCKETS)
    assert form_ids("", BUCKETS)[0] == 1


@pytest.mark.parametrize(
    ("word", "case", "digits", "signs", "length"),
    [
        ("cat", 1, 0, 0, 2),
        ("Cat", 2, 0, 0, 2),
        ("I", 2, 0, 0, 0),
        ("NATO", 3, 0, 0, 3),
        ("iPhone", 4, 0, 0, 4),
        ("1984", 0, 2, 0, 3),
        ("B-52", 2, 1, 1, 3),
        ("...", 0, 0, 2, 2),
        ("Éclairage", 2, 0, 0, 5),
        ("été", 1, 0, 0, 2),
        ("😀", 0, 0, 2, 0),
        ("x" * 5000, 1, 0, 0, 5),
    ],
)
def test_a_shape_tells_case_digits_signs_and_length(word, case, digits, signs, length):
    assert named(word)["shapes"] == 1 + length + 6 * (signs + 3 * (digits + 3 * case))


@given(st.lists(WORDS, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_python_and_the_graph_give_the_same_ids(words):
    found = graph_form_ids(tf.constant([word.encode() for word in words]), BUCKETS)
    assert list(found) == list(FORMS)
    wanted = np.array([form_ids(word, BUCKETS) for word in words])
    np.testing.assert_array_equal(np.stack([found[name].numpy() for name in FORMS], axis=1), wanted)
    assert wanted.min() > 0
    assert wanted[:, 0].max() < SHAPES
    assert wanted[:, 1:].max() <= BUCKETS


def test_no_word_gives_no_ids():
    found = graph_form_ids(tf.constant([], tf.string), 5)
    assert {name: value.shape for name, value in found.items()} == dict.fromkeys(FORMS, (0,))


@given(st.lists(TEXTS, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_the_written_words_of_a_text_are_those_of_the_graph_and_as_many_as_any_tokenizer_finds(texts):
    words = [surface_words(text) for text in texts]
    found = graph_surface_words(tf.constant([text.replace("\0", "\ufffd").encode() for text in texts]))
    assert [[one.decode() for one in row] for row in found.to_list()] == words
    assert [len(OTHER.encode(text)) for text in texts] == list(map(len, words))


def test_case_and_digits_stay():
    assert surface_words("In 1984 it’s McDonald's!") == ["In", "1984", "it", "'s", "McDonald", "'s", "!"]
    assert written_form("a.m.") == "a.m."
    assert written_form("\u200b") == ""

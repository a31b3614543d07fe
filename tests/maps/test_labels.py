from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.maps.labels import clusters, display_width, shorten, visible

ANY = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("a\nb\tc", "a↵b⇥c"),
        ("\x1b[31m", "U+001B[31m"),
        ("\u202eabc", "U+202Eabc"),
        ("\ud800", "U+D800"),
        ("  ", "␣␣"),
        ("a b", "a b"),
        ("▁the", "▁the"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_gets_a_symbol(label, shown):
    assert visible(label) == shown


@given(ANY)
def test_shown_labels_hold_nothing_that_acts_on_the_screen(label):
    shown = visible(label)
    shown.encode("utf-8")
    kinds = {unicodedata.category(character) for character in shown} - {"Cf"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert {c for c in shown if unicodedata.category(c) == "Cf"} <= {"\u200c", "\u200d"}


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("図書館", 6), ("e\u0301", 1), ("한국", 4), ("שלום", 4)])
def test_display_width_counts_cells(text, width):
    assert display_width(text) == width


@given(ANY, st.integers(1, 12))
def test_short_texts_fit_and_begin_like_the_long_ones(text, width):
    short = shorten(text, width)
    assert display_width(short) <= width
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


def test_shortening_keeps_marks_with_their_letters():
    assert shorten("e\u0301e\u0301e\u0301", 2) == "e\u0301…"
    assert shorten("図書館", 4) == "図…"


@given(ANY)
def test_clusters_lose_nothing(text):
    assert "".join(clusters(text)) == text

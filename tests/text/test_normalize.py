from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.text import normalize
from keras_attention.text.normalize import DROPPED, HANGUL_SYLLABLES, SPACES, normalization_rules

TEXT = st.text() | st.text(
    st.sampled_from("ae \u0301\u0302\u0323\u00e9\u00a0\u202f\u200b\u2581\t\n\x00\ud800A\u030a\u212b")
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Où est-il\u202f?", "Où est-il ?"),
        ("«\u00a0oui\u00a0»", "« oui »"),
        ("a\u2009b\u2007c\u3000d", "a b c d"),
        ("  two \t\r\n words ", "two words"),
        ("e\u0301te\u0301", "été"),
        ("\ufeffzero\u200bwidth", "zerowidth"),
        ("bell\x07, soft\u00adhyphen, right-to-left\u200f", "bell, softhyphen, right-to-left"),
        ("forged\u2581space", "forged space"),
        ("nul\x00 half\ud83d", "nul\ufffd half\ufffd"),
        ("joined\u200dstays", "joined\u200dstays"),
        ("ﬁ ² Ａ “x”", "ﬁ ² Ａ “x”"),
        ("\u200b \u00a0", ""),
    ],
)
def test_normalize_examples(text, expected):
    assert normalize(text) == expected


def test_normalize_refuses_bytes():
    with pytest.raises(TypeError, match=r"must be a str\. Received bytes"):
        normalize(b"text")


@given(TEXT)
def test_normalized_text_is_nfc_and_has_only_single_plain_spaces(text):
    result = normalize(text)
    assert result == unicodedata.normalize("NFC", result)
    assert result == " ".join(result.split(" ")).strip() and "  " not in result
    assert not {ord(c) for c in result} & {0, *SPACES, *DROPPED}
    result.encode()


@given(TEXT)
def test_normalize_twice_changes_nothing(text):
    assert normalize(normalize(text)) == normalize(text)


def test_no_rule_applies_inside_nfc_text():
    rules = normalization_rules(hangul=True)
    plain = {chr(code) for code in (*SPACES, *DROPPED)}
    assert all(unicodedata.normalize("NFC", key) != key for key in rules if key not in plain)
    assert all(unicodedata.normalize("NFC", value) == value for value in rules.values())


def test_rules_compose_each_letter_from_each_order_of_its_marks():
    rules = normalization_rules()
    assert {key for key, value in rules.items() if value == "ệ"} == {
        "e\u0323\u0302",
        "e\u0302\u0323",
        "ê\u0323",
        "ẹ\u0302",
    }


def test_korean_syllables_are_composed_on_demand_only():
    syllables = {chr(code) for code in HANGUL_SYLLABLES}
    assert not syllables & set(normalization_rules().values())
    assert syllables <= set(normalization_rules(hangul=True).values())

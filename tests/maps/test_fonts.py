from __future__ import annotations

import sys
import types
import warnings

import pytest
from matplotlib.font_manager import FontProperties, findfont, get_font

from keras_attention.maps import MissingGlyphWarning, fonts, shaping


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch):
    monkeypatch.setattr(fonts, "_warned", set())


def only_dejavu(monkeypatch):
    monkeypatch.setattr(
        fonts,
        "families_for",
        lambda characters: (["DejaVu Sans"], characters - fonts.covered("DejaVu Sans", characters)),
    )


def test_latin_needs_one_family():
    assert fonts.families_for(set("Où est ▁la?")) == (["DejaVu Sans"], frozenset())


def test_another_installed_family_fills_in_what_the_first_lacks():
    stix = get_font(findfont("STIXGeneral")).get_charmap()
    dejavu = get_font(findfont("DejaVu Sans")).get_charmap()
    character = chr(min(code for code in stix if code not in dejavu and code > 0x2100))
    families, missing = fonts.families_for({"a", character})
    assert not missing and len(families) == 2
    assert get_font(findfont(FontProperties(family=[families[1]]))).get_char_index(ord(character))


def test_fonts_of_boxes_are_never_chosen():
    families, missing = fonts.families_for({"\U0001f9ff", "\ue123", "\U000e0fff"})
    assert not any("last" in family.lower() for family in families) and "\U000e0fff" in missing


def test_a_missing_script_is_shown_by_its_codes_and_warned_of_once(monkeypatch):
    only_dejavu(monkeypatch)
    with pytest.warns(MissingGlyphWarning, match=r"all CJK, HIRAGANA characters.*Install Noto Sans CJK") as caught:
        texts, families = fonts.prepare(["図書館", "は", "a中b"], [24, 24, 24])
    assert len(caught) == 1 and families == ["DejaVu Sans"]
    assert texts == ["U+56F3·66F8·9928", "U+306F", "aU+4E2D·b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fonts.prepare(["図"], [24])


def test_codes_are_shortened_too(monkeypatch):
    only_dejavu(monkeypatch)
    with pytest.warns(MissingGlyphWarning):
        assert fonts.prepare(["図書館図書館"], [10])[0] == ["U+56F3·66…"]


@pytest.mark.parametrize(
    ("character", "script"),
    [("中", "CJK"), ("か", "HIRAGANA"), ("한", "HANGUL"), ("ก", "THAI"), ("ह", "DEVANAGARI"), ("？", "FULLWIDTH")],
)
def test_scripts_are_named_by_unicode(character, script):
    assert fonts.script_of(character) == script


@pytest.mark.parametrize("character", ["😀", "\ue000", "\U000e0fff"])
def test_what_is_no_letter_is_a_symbol(character):
    assert fonts.script_of(character) == "SYMBOLS"


def test_invisible_selectors_without_a_glyph_are_dropped_in_silence():
    assert fonts.replace_missing("a\ufe0fb", frozenset("\ufe0f")) == "ab"


@pytest.fixture
def unshaped(monkeypatch):
    """A matplotlib before 3.11, without shaping libraries."""
    monkeypatch.setattr(shaping, "is_shaped_by_matplotlib", lambda: False)
    monkeypatch.setattr(fonts, "is_shaped_by_matplotlib", lambda: False)
    monkeypatch.setattr(shaping, "_can_reshape", lambda: False)


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        ("שלום", "םולש"),
        ("שלום עולם", "םלוע םולש"),
        ("abc", "abc"),
        ("שלום 123", "123 םולש"),
        ("abc שלום", "abc םולש"),
        ("שָׁלוֹם", "םוֹלשָׁ"),
    ],
)
def test_hebrew_is_turned_round_where_matplotlib_does_not(unshaped, stored, seen):
    assert fonts.prepare([stored], [24])[0] == [seen]


def test_arabic_that_cannot_be_joined_is_warned_of_once(unshaped):
    with pytest.warns(MissingGlyphWarning, match=r"does not join Arabic letters.*matplotlib 3\.11.*python-bidi"):
        assert fonts.prepare(["أين"], [24])[0] == ["نيأ"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fonts.prepare(["تقع"], [24])


def test_shaping_libraries_are_used_where_installed(monkeypatch):
    monkeypatch.setattr(fonts, "is_shaped_by_matplotlib", lambda: False)
    monkeypatch.setattr(shaping, "_can_reshape", lambda: True)
    algorithm = types.SimpleNamespace(get_display=lambda text: f"display({text})")
    monkeypatch.setitem(sys.modules, "bidi", types.SimpleNamespace(algorithm=algorithm))
    monkeypatch.setitem(sys.modules, "bidi.algorithm", algorithm)
    reshaper = types.SimpleNamespace(reshape=lambda text: f"joined({text})")
    monkeypatch.setitem(sys.modules, "arabic_reshaper", reshaper)
    assert fonts.prepare(["أين", "abc"], [24, 24])[0] == ["display(joined(أين))", "abc"]


def test_this_matplotlib_shapes_if_it_has_libraqm():
    from matplotlib import ft2font

    assert shaping.is_shaped_by_matplotlib() == ("__libraqm_version__" in dir(ft2font))

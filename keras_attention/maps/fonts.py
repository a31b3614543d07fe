"""Fonts for labels in any script: which installed families have the glyphs, and what to show where none has."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Sequence

from keras_attention.maps.labels import code_point, shorten
from keras_attention.maps.shaping import is_shaped_by_matplotlib, joins_letters, visual_order

# Tried in this order before all other installed families. matplotlib brings the first one along.
PREFERRED = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Arial Unicode MS",
    "Noto Sans Symbols",
    "Noto Sans Symbols 2",
    "Noto Emoji",
)
# Families that claim characters they only draw boxes for, or whose codes are no Unicode.
_UNFIT = ("last resort", ".lastresort", "adobe blank", "unicode bmp fallback", "stixnonunicode", "stixsize")
_UNFIT += ("cmb10", "cmex10", "cmmi10", "cmr10", "cmss10", "cmsy10", "cmtt10")
_USUAL_WEIGHTS = (400, 500, "normal", "regular", "book", "medium")
_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC")
_warned: set[str] = set()


class MissingGlyphWarning(UserWarning):
    """A label cannot be shown as it is written, because a font or a shaping library is not installed."""


def prepare(texts: Sequence[str], widths: Sequence[int]) -> tuple[list[str], list[str]]:
    """Finds fonts for texts and makes them drawable.

    Args:
        texts: sequence of str, free of control characters.
        widths: sequence of int, as many. The cells that each may take, also where codes make it longer.

    Returns:
        `(texts, families)`: the texts in visual order, with the codes of characters that no font has
        (`U+56F3·66F8`), and the installed families to draw them with, by preference.

    Warns:
        MissingGlyphWarning: once for each script that no installed font has, or that cannot be shaped.
    """
    families, missing = families_for(set("".join(texts)))
    _warn_missing({script_of(character) for character in missing if not _is_ignorable(character)})
    drawable = [shorten(replace_missing(text, missing), width) for text, width in zip(texts, widths, strict=True)]
    if not is_shaped_by_matplotlib():
        if any(map(joins_letters, drawable)) and "shaping" not in _warned:
            _warned.add("shaping")
            _warn(
                "This matplotlib does not join Arabic letters; labels show them apart. Expected a shaping library. "
                "Install matplotlib 3.11 or later, or python-bidi and arabic-reshaper."
            )
        drawable = [visual_order(text) for text in drawable]
    return drawable, families


def families_for(characters: Iterable[str]) -> tuple[list[str], frozenset[str]]:
    """Chooses installed font families for characters.

    Returns:
        `(families, missing)`: as few families as the order of preference allows, and the characters that none has.
    """
    from matplotlib.font_manager import fontManager

    upright = (entry for entry in fontManager.ttflist if entry.style == "normal" and entry.weight in _USUAL_WEIGHTS)
    installed = {entry.name for entry in upright if not entry.name.lower().startswith(_UNFIT)}
    ordered = [family for family in PREFERRED if family in installed]
    ordered += sorted(installed.difference(ordered))
    chosen, missing = [PREFERRED[0]], set(characters) - covered(PREFERRED[0], characters)
    for family in ordered[1:]:
        if not missing:
            break
        if found := covered(family, missing):
            chosen.append(family)
            missing -= found
    return chosen, frozenset(missing)


def covered(family: str, characters: Iterable[str]) -> set[str]:
    """The characters for which a family has a glyph; none for a font that matplotlib cannot draw with."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        font = get_font(findfont(FontProperties(family=[family]), fallback_to_default=False))
    except (OSError, RuntimeError, ValueError):  # uninstalled since the list was made, or damaged
        return set()
    if not font.scalable:
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def script_of(character: str) -> str:
    """The script of a character by its Unicode name, e.g. "CJK", "THAI"; "SYMBOLS" for what is no letter or mark."""
    script = unicodedata.name(character, "SYMBOLS").split()[0].split("-")[0]
    return script if script in _CJK or unicodedata.category(character)[0] in "LM" else "SYMBOLS"


def replace_missing(text: str, missing: frozenset[str]) -> str:
    """Writes characters without a glyph as codes, e.g. `U+56F3·66F8` or `U+56F3·a`; drops those that are never seen."""
    shown, in_run = [], False
    for character in text:
        if character not in missing:
            shown.append(f"·{character}" if in_run else character)
            in_run = False
        elif not _is_ignorable(character):
            code = code_point(character)
            shown.append(f"·{code[2:]}" if in_run else code)
            in_run = True
    return "".join(shown)


def _is_ignorable(character: str) -> bool:
    return character in "\u200c\u200d" or "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _warn_missing(scripts: set[str]) -> None:
    by_family: dict[str, list[str]] = {}
    for script in sorted(scripts):
        family = "Noto Sans CJK" if script in _CJK else f"Noto Sans {script.title()}"
        family = "Noto Sans Symbols 2 or Noto Emoji" if script == "SYMBOLS" else family
        by_family.setdefault(family, []).append(script)
    for family, missed in by_family.items():
        if not _warned.issuperset(missed):
            _warned.update(missed)
            _warn(
                f"No installed font has all {', '.join(missed)} characters of the labels; their codes are shown. "
                f"Expected a font with these glyphs. Install {family}, then start Python again."
            )


def _warn(message: str) -> None:
    warnings.warn(message, MissingGlyphWarning, stacklevel=2)

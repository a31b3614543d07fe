"""One spelling for each text: what a tokenizer is trained on, and what its output is compared with.

`normalize` is the definition. `normalization_rules` says the same as a table of replacements, longest match first,
which a SentencePiece model carries inside its file; so no runtime has to normalise on its own, and Unicode tables that
differ between Python, TensorFlow and a phone cannot change an id.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata

# What becomes a plain space. U+3000 is the space of Japanese and Chinese; U+2581 is SentencePiece's own sign for a
# space, which text must not be able to forge.
SPACES = (
    *range(0x09, 0x0E),
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x2581,
    0x3000,
)

# What is dropped: controls, the soft hyphen, zero-width and direction marks. Not U+200C and U+200D, which change what
# is read in Persian, in Indic scripts and in emoji.
DROPPED = (
    *range(0x01, 0x09),
    *range(0x0E, 0x20),
    *range(0x7F, 0x85),
    *range(0x86, 0xA0),
    0xAD,
    0x200B,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2065),
    *range(0x2066, 0x2070),
    0xFEFF,
)

HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
_SURROGATES = range(0xD800, 0xE000)
_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_TABLE = {**dict.fromkeys(SPACES, " "), **dict.fromkeys(DROPPED)}


def readable(text: str) -> str:
    """Returns `text` with each NUL and lone surrogate, which no UTF-8 reader agrees about, as U+FFFD."""
    return _UNREADABLE.sub("\ufffd", text)


def normalize(text: str) -> str:
    """Brings a text into the one form that tokenizers see and write.

    In this order: NUL and lone surrogates become U+FFFD; every space character, tab, line end and U+2581 a plain space;
    other controls, the soft hyphen, zero-width spaces, byte order marks and direction marks are dropped; NFC; runs of
    spaces become one; the ends are stripped. Upper case, quotes and compatibility forms stay as they are. Applying it
    twice changes nothing.

    Args:
        text: str. Any text.

    Returns:
        str.

    Raises:
        TypeError: `text` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a str. Received {type(text).__name__}: {text!r}. Decode bytes first.")
    text = unicodedata.normalize("NFC", readable(text).translate(_TABLE))
    return re.sub(" +", " ", text).strip(" ")


@functools.cache
def normalization_rules(*, hangul: bool = False) -> dict[str, str]:
    """Returns `normalize` as replacements, all but the joining and stripping of spaces and NUL.

    Covers the Basic Multilingual Plane, where canonical compositions are frozen. Every key is a sequence that no NFC
    text contains, so the rules leave normalised text alone. Beyond them lies only text whose combining marks stand in a
    disorder that forms no letter, whose letters are split by something dropped, or that uses compositions beyond U+FFFF
    (or jamo, without `hangul`): a runtime reads those as they are written.

    Args:
        hangul: bool. Also compose Korean syllables from their jamo: 22,000 rules more, 140 kB in a model file.
    """
    rules: dict[str, str] = {}
    for code in range(0x10000):
        if code not in _SURROGATES and (hangul or code not in HANGUL_SYLLABLES):
            rules.update(_canonical_rules(chr(code)))
    rules.update((chr(code), " ") for code in SPACES)
    rules.update((chr(code), "") for code in DROPPED)
    return rules


def _canonical_rules(character: str) -> dict[str, str]:
    """Returns every sequence that is canonically equivalent to `character`, to its NFC form."""
    composed = unicodedata.normalize("NFC", character)
    decomposed = unicodedata.normalize("NFD", character)
    sequences = {character}
    for marks in set(itertools.permutations(decomposed[1:])):
        sequence = decomposed[0] + "".join(marks)
        for end in range(1, len(sequence) + 1):
            prefix = unicodedata.normalize("NFC", sequence[:end])
            if len(prefix) == 1:
                sequences.add(prefix + sequence[end:])
    return {s: composed for s in sequences if s != composed and unicodedata.normalize("NFC", s) == composed}

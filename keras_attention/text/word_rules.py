"""How running text falls into words, as a table of replacements that a SentencePiece model carries in its file.

Like `normalization_rules`, the table is read with the longest match first, from left to right, and so gives the same
words in Python and in a TensorFlow graph.
"""

from __future__ import annotations

import functools
import itertools
import re

from keras_attention.text.normalize import normalization_rules

__all__ = ["BETWEEN", "word_rules"]

BETWEEN = "\u2582"  # stands between every two words: SentencePiece would make one unknown of several in a row

_QUOTES = {"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"'}
_PUNCTUATION = "!\"#$%&'()*+/:;<=>?@[\\]^_`{|}~…–—¡¿§©®°·•†‡£€¥"
_STOPS = ".,"  # words of their own at the end of a word, and part of one within it: 3.14, 1,000
_AFTER = " !\"),.:;?]'-”’…"  # what may stand behind the end of a word
_SHORT_FORMS = ("s", "m", "d", "re", "ve", "ll")  # it's, I'm, he'd, we're, we've, we'll
_DIGITS = "0123456789"


@functools.cache
def word_rules(*, lowercase: bool = True, mask_digits: bool = False) -> dict[str, str]:
    """Replacements that put spaces, with `BETWEEN` among them, between the words of a text.

    Each sign of punctuation is a word of its own, but for the hyphen, which stays within its word, and for "." and ","
    where a letter or digit follows. Short forms come apart as the Penn Treebank has them: "isn't" is "is n't", "it's"
    is "it 's". Curly quotes become straight. A text must end with a space: the end of a word is told by what follows.

    Args:
        lowercase: bool. Upper case becomes lower case.
        mask_digits: bool. Every digit becomes 0, so that no number of a corpus ends in a vocabulary.
    """

    def written(text):
        text = text.lower() if lowercase else text
        return "".join("0" if mask_digits and character in _DIGITS else character for character in text)

    rules = {old: written(new) for old, new in normalization_rules().items()}
    letters = (chr(code) for code in range(0x21, 0x10000) if not 0xD800 <= code < 0xE000)
    rules.update({one: written(one) for one in letters if one not in rules and written(one) != one})
    spaced = {one: f" {one} " for one in _PUNCTUATION} | {old: f" {new} " for old, new in _QUOTES.items()}
    rules |= spaced
    stops = {stop: f" {stop} " for stop in _STOPS}
    rules["..."] = " ... "
    for stop, after in itertools.product(_STOPS, _AFTER):
        rules[stop + after] = stops[stop] + (spaced | stops).get(after, after)
    for quote, after in itertools.product("'’", _AFTER):
        behind = (spaced | stops).get(after, after)
        for n, t in itertools.product("nN", "tT"):
            rules[f"{n}{quote}{t}{after}"] = written(f" {n}'{t}") + behind
        for form in _SHORT_FORMS:
            for cased in sorted({form, form.upper(), form.capitalize()}):
                rules[f"{quote}{cased}{after}"] = written(f" '{cased}") + behind
    rules[BETWEEN] = ""
    rules[" "] = " "
    return {old: re.sub(" +", f" {BETWEEN} ", new) for old, new in rules.items()}

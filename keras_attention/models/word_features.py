"""What the form of a word tells, as ids that need no vocabulary: the same in Python and in a TensorFlow graph."""

from __future__ import annotations

import functools

import tensorflow as tf

from keras_attention.text import WordTokenizer

__all__ = [
    "AFFIXES",
    "FORMS",
    "SHAPES",
    "form_ids",
    "graph_form_ids",
    "graph_surface_words",
    "surface_words",
    "written_form",
]

# Column → (whether it is read from the end, how many characters)
AFFIXES = {
    "prefix_1": (False, 1),
    "prefix_3": (False, 3),
    "suffix_2": (True, 2),
    "suffix_3": (True, 3),
    "suffix_4": (True, 4),
}
FORMS = ("shapes", *AFFIXES)
SHAPES = 1 + 5 * 3 * 3 * 6  # ids of `shapes`: case, digits, signs, length; 0 is padding

_FACTOR, _PRIME = 65_599, 2_147_483_647
_LENGTHS = (1, 2, 3, 5, 8)  # the longest word of each class of lengths but the last


@functools.cache
def _splitter() -> WordTokenizer:
    """The words of a text as they are written: upper case and digits stay."""
    return WordTokenizer.from_words(["a"], lowercase=False, mask_digits=False)


def surface_words(text: str) -> list[str]:
    """The words of running text, as many as any `WordTokenizer` finds in it."""
    return _splitter().words(text)


@functools.lru_cache(maxsize=200_000)
def written_form(word: str) -> str:
    """A word of a list as a text would have it; "" where nothing of it can be seen."""
    return "".join(_splitter().words(word))


def graph_surface_words(strings):
    """`surface_words` in a graph: string (B,) → RaggedTensor of string (B, words)."""
    return _splitter().graph_words(strings)


@functools.lru_cache(maxsize=200_000)
def form_ids(word: str, buckets: int) -> tuple[int, ...]:
    """An id > 0 for each of `FORMS`.

    `shapes` numbers what kinds of characters a word has, and about how many. An affix is hashed into one of `buckets`
    ids, all kinds into the same ones, as the hash embeddings of Svenstrup et al., 2017 (arXiv 1709.03933) do with one
    function: upper case and digits (0 for all) do not count, a shorter word is its own affix, and with the code points
    c_1 … c_n, `h_0 = 2n + s` (s = 1 from the end, else 0) and `h_i = (65599 h_{i−1} + c_i) mod (2³¹ − 1)`, the id is
    `1 + h_n mod buckets`.

    Args:
        word: str, one word.
        buckets: int > 0.
    """
    points = [ord(one) for one in word]
    plain = [_plain(point) for point in points]
    found = [_shape(points)]
    for from_end, size in AFFIXES.values():
        value = 2 * size + from_end
        for point in plain[-size:] if from_end else plain[:size]:
            value = (value * _FACTOR + point) % _PRIME
        found.append(1 + value % buckets)
    return tuple(found)


def _plain(point: int) -> int:
    if 48 <= point <= 57:
        return 48
    return point + 32 if 65 <= point <= 90 else point


def _shape(points: list[int]) -> int:
    upper = [65 <= point <= 90 or 0xC0 <= point <= 0xDE for point in points]
    lower = [97 <= point <= 122 or 0xDF <= point < 0x2000 for point in points]
    digits = [48 <= point <= 57 for point in points]
    uppers, lowers, numbers, size = sum(upper), sum(lower), sum(digits), len(points)
    signs = size - uppers - lowers - numbers
    if not uppers + lowers:
        case = 0
    elif not uppers:
        case = 1
    elif uppers == 1 and upper[0]:
        case = 2
    else:
        case = 4 if lowers else 3
    length = sum(size > most for most in _LENGTHS)
    return 1 + ((case * 3 + _share(numbers, size)) * 3 + _share(signs, size)) * 6 + length


def _share(count: int, size: int) -> int:
    """0 for none, 1 for some, 2 for all."""
    return 0 if not count else 2 if count == size else 1


def graph_form_ids(words, buckets):
    """`form_ids` in a graph: string (N,) → dict of `FORMS`, each int32 (N,)."""
    points = tf.strings.unicode_decode(words, "UTF-8")  # (N, characters)
    flat = points.values
    flat = tf.where((flat >= 48) & (flat <= 57), 48, flat)
    plain = points.with_values(tf.where((flat >= 65) & (flat <= 90), flat + 32, flat))
    found = {"shapes": _graph_shapes(points)}
    for name, (from_end, size) in AFFIXES.items():
        part = plain[:, -size:] if from_end else plain[:, :size]
        affix = tf.cast(part.to_tensor(0, shape=[None, size]), tf.int64)
        value = tf.zeros_like(affix[:, 0]) + 2 * size + from_end
        for place in range(size):
            point = affix[:, place]
            value = tf.where(point > 0, (value * _FACTOR + point) % _PRIME, value)
        found[name] = tf.cast(1 + value % buckets, tf.int32)
    return found


def _graph_shapes(points):
    def count(which):
        return tf.reduce_sum(points.with_values(tf.cast(which, tf.int32)), axis=1)

    def share(one):
        return tf.where(one == 0, 0, tf.where(one == size, 2, 1))

    flat, size = points.values, tf.cast(points.row_lengths(), tf.int32)
    upper = ((flat >= 65) & (flat <= 90)) | ((flat >= 0xC0) & (flat <= 0xDE))
    lower = ((flat >= 97) & (flat <= 122)) | ((flat >= 0xDF) & (flat < 0x2000))
    uppers, lowers, numbers = count(upper), count(lower), count((flat >= 48) & (flat <= 57))
    first = tf.reduce_sum(points.with_values(tf.cast(upper, tf.int32))[:, :1], axis=1) > 0
    case = tf.where((uppers == 1) & first, 2, tf.where(lowers > 0, 4, 3))
    case = tf.where(uppers == 0, tf.where(lowers == 0, 0, 1), case)
    signs = size - uppers - lowers - numbers
    length = tf.add_n([tf.cast(size > most, tf.int32) for most in _LENGTHS])
    return 1 + ((case * 3 + share(numbers)) * 3 + share(signs)) * 6 + length

"""Right-to-left text for a matplotlib that draws characters from left to right in the order they are stored."""

from __future__ import annotations

import unicodedata
from importlib.util import find_spec

from keras_attention.maps.labels import clusters


def is_shaped_by_matplotlib() -> bool:
    """Whether matplotlib itself orders and joins letters: from 3.11 on, through libraqm."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


def joins_letters(text: str) -> bool:
    """Whether a text has letters that change with their neighbours (Arabic, Syriac) and nothing here can join them."""
    return _has(text, ("AL",)) and not _can_reshape()


def visual_order(text: str) -> str:
    """The characters of a text from left to right as a reader sees them.

    Uses python-bidi, and arabic-reshaper for Arabic, where both are installed. Otherwise runs of right-to-left letters
    are turned round, and the order of runs with them where the text begins with one; numbers keep their order.
    """
    if not _has(text, ("R", "AL")):
        return text
    if _can_reshape():
        import arabic_reshaper
        from bidi.algorithm import get_display

        return get_display(arabic_reshaper.reshape(text))
    runs = _runs(text)
    if runs[0][0]:
        runs.reverse()
    return "".join("".join(reversed(clusters(run))) if to_left else run for to_left, run in runs)


def _can_reshape() -> bool:
    return find_spec("bidi") is not None and find_spec("arabic_reshaper") is not None


def _has(text: str, directions: tuple[str, ...]) -> bool:
    return any(unicodedata.bidirectional(character) in directions for character in text)


def _runs(text: str) -> list[tuple[bool, str]]:
    """Cuts a text into `(is right to left, run)`; what has no direction of its own goes with what stands before it."""
    runs: list[tuple[bool, str]] = []
    first = next(c for c in map(unicodedata.bidirectional, text) if c in ("L", "R", "AL"))
    to_left = first != "L"
    for cluster in clusters(text):
        direction = unicodedata.bidirectional(cluster[0])
        if direction in ("R", "AL"):
            to_left = True
        elif direction in ("L", "EN", "AN"):
            to_left = False
        if runs and runs[-1][0] == to_left:
            runs[-1] = (to_left, runs[-1][1] + cluster)
        else:
            runs.append((to_left, cluster))
    return runs

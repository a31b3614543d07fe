"""`DocumentMap`: what was looked at in a document, sentence by sentence and word by word."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from keras_attention.maps import colours, page
from keras_attention.maps.attention_map import AttentionMap
from keras_attention.maps.files import write_atomically
from keras_attention.maps.labels import visible

_STYLE = """
:root { color-scheme: light; }
body { margin: 1.5em auto; max-width: 50em; padding: 0 1em; font: 16px/1.6 sans-serif; }
body { color: #1a1a1a; background: #fff; }
h1 { font-size: 1.2em; } .about { color: #555; }
p.sentence { margin: .15em 0; padding: .1em .5em; border-left: .6em solid; }
p.sentence span { padding: .1em .15em; border-radius: .2em; }
span.dark { color: #fff; }
"""

_HEAD = """<h1 dir="auto">{title}</h1>
<p class="about">The bar is the weight of a sentence in the document, as a share of the largest; the shade that of a
word in its sentence, times that of the sentence. Pointing at them shows the weights.</p>
"""


@dataclass(frozen=True, eq=False, repr=False)
class DocumentMap(AttentionMap):
    """An `AttentionMap` of one row over the words of a document: the weight of each word within its sentence.

    Args:
        sentence_lengths: ints. How many of the words each sentence has, in their order.
        sentence_weights: floats in [0, 1], as many. The weight of each sentence in the document.

    Raises:
        ValueError: lengths and weights do not fit each other, or the words.
    """

    sentence_lengths: Sequence[int] = ()
    sentence_weights: Sequence[float] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = tuple(int(one) for one in self.sentence_lengths)
        weights = tuple(float(one) for one in self.sentence_weights)
        if len(lengths) != len(weights) or min(lengths, default=1) < 1 or sum(lengths) != len(self.columns):
            raise ValueError(
                f"The sentences have {sum(lengths)} words of {len(self.columns)}, and {len(weights)} weights for "
                f"{len(lengths)} sentences. Expected a weight for each sentence, and each word in one."
            )
        if self.weights.shape[:-1] != (1,):
            raise ValueError(f"The map of a document has one row. Received weights {self.weights.shape}.")
        object.__setattr__(self, "sentence_lengths", lengths)
        object.__setattr__(self, "sentence_weights", weights)

    def sentences(self) -> list[tuple[float, list[tuple[float, str]]]]:
        """The weight of each sentence, and of each of its words with the word."""
        found, first = [], 0
        for length, weight in zip(self.sentence_lengths, self.sentence_weights, strict=True):
            last = first + length
            words = zip(self.weights[0, first:last].tolist(), self.columns[first:last], strict=True)
            found.append((weight, list(words)))
            first = last
        return found

    def html(self, path: str | os.PathLike | None = None) -> str:
        """Writes the document as a page: a bar beside each sentence, a shade behind each word.

        Args:
            path: path of the file to write, in one piece and in UTF-8; default: none.

        Returns:
            The page.

        Raises:
            OSError: the file cannot be written.
        """
        top = max(self.sentence_weights, default=0.0) or 1.0
        body = "\n".join(_sentence(weight, weight / top, words) for weight, words in self.sentences())
        head = _HEAD.format(title=escape(visible(self.rows[0])))
        whole = page.whole_page(self.rows[0], _STYLE, head + body)
        if path is not None:
            write_atomically(path, whole.encode("utf-8"))
        return whole

    def to_dict(self) -> dict:
        """The map in JSON types, with its sentences."""
        own = {
            "sentence_lengths": list(self.sentence_lengths),
            "sentence_weights": [float(f"{one:.9g}") for one in np.float32(self.sentence_weights)],
        }
        return {**super().to_dict(), **own}

    @classmethod
    def from_dict(cls, values: dict) -> DocumentMap:
        """Makes the map again that `to_dict` wrote."""
        own = ("sentence_lengths", "sentence_weights")
        plain = AttentionMap.from_dict({key: value for key, value in values.items() if key not in own})
        names = ("name", "layer", "kind", "weights", "rows", "columns", "axes")
        return cls(**{name: getattr(plain, name) for name in names}, **{name: values[name] for name in own})


def _sentence(weight: float, share: float, words: list[tuple[float, str]]) -> str:
    top = max((one for one, _ in words), default=0.0) or 1.0
    spans = " ".join(_word(one, one / top * share, word) for one, word in words)
    return (
        f'<p class="sentence" dir="auto" style="border-color:{colours.css(share)}" title="sentence: {weight:.3f}">'
        f"{spans}</p>"
    )


def _word(weight: float, share: float, word: str) -> str:
    dark = ' class="dark"' if colours.is_dark(share) else ""
    return f'<span{dark} style="background:{colours.css(share)}" title="{weight:.3f}">{escape(visible(word))}</span>'

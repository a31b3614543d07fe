"""`<unk>` in an output, replaced by the word of the input that was looked at."""

from __future__ import annotations

import numpy as np

from keras_attention.text import WordTokenizer

__all__ = ["check_replaces_unknown", "replace_unknown"]


def check_replaces_unknown(tokenizer, maps):
    """Refuses `replace_unknown` where it means nothing.

    Raises:
        ValueError: the vocabulary is not of words, or the decoder has no attention.
    """
    if not isinstance(tokenizer, WordTokenizer):
        kind = "none" if tokenizer is None else type(tokenizer).__name__
        raise ValueError(
            f"`replace_unknown` copies words of the input, but the vocabulary of this model is not one of words (its "
            f"tokenizer is {kind}; expected a WordTokenizer). Leave it out."
        )
    if not maps:
        raise ValueError(
            "`replace_unknown` copies the word that was looked at, but this model has no attention. Leave it out."
        )


def replace_unknown(tokenizer, ids, words, weights) -> str:
    """The text of an output, in which each unknown word is the word of the input with the highest weight.

    Args:
        tokenizer: `WordTokenizer`.
        ids: list of int, T of them.
        words: list of str, S of them. The words of the input.
        weights: float (T, H, Tv), Tv >= S, of H heads, whose mean counts. What is looked at besides words (the end)
            is no choice.
    """
    looked_at = np.argmax(weights.mean(axis=1)[:, : len(words)], axis=-1)
    found = []
    for place, index in enumerate(ids):
        if index == tokenizer.end_id:
            break
        unknown = index == tokenizer.unk_id
        found.append(words[looked_at[place]] if unknown else tokenizer.decode([index]))
    return " ".join(found)

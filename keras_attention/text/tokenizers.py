"""The tokenizers by name, as recipes have it, and by the file that one has left in a folder."""

from __future__ import annotations

import difflib
import pathlib

from keras_attention.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attention.text.word_tokenizer import WordTokenizer

__all__ = ["TOKENIZERS", "load_tokenizer", "tokenizer_class"]

TOKENIZERS = {"sentencepiece": SentencePieceTokenizer, "word": WordTokenizer}


def tokenizer_class(kind: str) -> type[SentencePieceTokenizer]:
    """The tokenizer of a name.

    Raises:
        ValueError: there is none.
    """
    if kind not in TOKENIZERS:
        near = difflib.get_close_matches(str(kind), TOKENIZERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown tokenizer {kind!r}. Expected one of {', '.join(map(repr, TOKENIZERS))}.{hint}")
    return TOKENIZERS[kind]


def load_tokenizer(folder: str | pathlib.Path) -> SentencePieceTokenizer:
    """Reads the tokenizer that was saved in a folder, of whichever kind it is.

    Raises:
        FileNotFoundError: there is none.
        ValueError: there are two, or the file is damaged.
    """
    folder = pathlib.Path(folder)
    found = [one for one in TOKENIZERS.values() if (folder / one.file_name).is_file()]
    names = " or ".join(one.file_name for one in TOKENIZERS.values())
    if not found:
        raise FileNotFoundError(f"There is no {names} in {folder}. Expected a folder that a tokenizer wrote.")
    if len(found) > 1:
        raise ValueError(f"{folder} holds more than one of {names}. Remove those that are not the model's.")
    return found[0].load(folder)

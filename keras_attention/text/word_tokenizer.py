"""A tokenizer of words that gives the same ids in Python and in a TensorFlow graph."""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from keras_attention.text.normalize import readable
from keras_attention.text.sentencepiece_model import SPECIAL_PIECES, WORD, SentencePieceModel, read_model, write_model
from keras_attention.text.sentencepiece_tokenizer import SentencePieceTokenizer, _tensorflow_text, train_model
from keras_attention.text.word_rules import BETWEEN, word_rules

__all__ = ["WordTokenizer"]

_SPACE = "\u2581"
_LONGEST = 80  # characters of a word of the list


class WordTokenizer(SentencePieceTokenizer):
    """Text to the ids of its words, by a list of known words; all others get `unk_id`.

    It is a SentencePiece model of the kind "word", whose own normalisation puts spaces between words and punctuation
    (see `word_rules`): so `encode` and `graph_encode` give the same ids for any text. LiteRT has no such tokenizer.

    Args:
        model: bytes. A serialized model, as `model_bytes` returns it.
        source: str. Where it came from, for messages.

    Raises:
        ValueError: `model` is no word model of ours, is damaged, or is larger than 16 MiB.

    Example:
        tokenizer = WordTokenizer.train(["It isn't here.", "Is it?"])
        tokenizer.tokens(tokenizer.encode("Isn't it?"))  # ["is", "n't", "it", "?"]
    """

    model_type = WORD
    file_name = "words.model"

    @classmethod
    def train(
        cls,
        sentences: Iterable[str | Sequence[str]],
        vocabulary_size: int | None = None,
        *,
        min_count: int = 1,
        lowercase: bool = True,
        mask_digits: bool = False,
    ) -> WordTokenizer:
        """Collects the words of texts, the most frequent first.

        Args:
            sentences: iterable of str, or of lists of str, which are words already (see `encode_words`).
            vocabulary_size: int. Most words, the four special ones included; None keeps all.
            min_count: int > 0. Words that are rarer are left out.
            lowercase, mask_digits: see `word_rules`.

        Raises:
            TypeError: `sentences` is one str, or holds something else than str.
            ValueError: no word is left.
        """
        if isinstance(sentences, str):
            raise TypeError("`sentences` must be an iterable of str. Received one str. Pass text.splitlines().")
        splitter = cls.from_words(["a"], lowercase=lowercase, mask_digits=mask_digits)
        counts: collections.Counter[str] = collections.Counter()
        for sentence in sentences:
            given = isinstance(sentence, (list, tuple))
            counts.update(map(splitter.joined, sentence) if given else splitter.words(sentence))
        del counts[""]
        ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        kept = [word for word, count in ordered if count >= min_count and len(word) <= _LONGEST]
        if vocabulary_size is not None:
            kept = kept[: max(operator.index(vocabulary_size) - len(SPECIAL_PIECES), 0)]
        if not kept:
            raise ValueError(
                f"No word is left of {sum(counts.values())} with min_count={min_count} and "
                f"vocabulary_size={vocabulary_size}. Give more text, or lower what is asked of a word."
            )
        return cls.from_words(kept, lowercase=lowercase, mask_digits=mask_digits)

    @classmethod
    def from_words(cls, words: Iterable[str], *, lowercase: bool = True, mask_digits: bool = False) -> WordTokenizer:
        """A tokenizer that knows these words, with the ids 4, 5, … in their order.

        Raises:
            ValueError: there is no word, one is empty, longer than 80 characters, holds a space, or comes twice.
        """
        words = list(words)
        for word in words:
            if not isinstance(word, str) or len(word) > _LONGEST or word.split() != [word] or _SPACE in word:
                raise ValueError(
                    f"A word must be a str of 1 to {_LONGEST} characters without a space. Received {word!r}."
                )
        if not words or len(set(words)) != len(words):
            twice = [word for word, count in collections.Counter(words).items() if count > 1]
            raise ValueError(f"Expected at least one word, each once. Received {twice[0] if twice else 'none'!r}.")
        rules = word_rules(lowercase=lowercase, mask_digits=mask_digits)
        trained = train_model(["a b c"], rules, vocab_size=8, model_type="word", hard_vocab_limit=False)
        charsmap = read_model(trained, "The trained model", WORD).charsmap
        pieces = (*SPECIAL_PIECES, *(_SPACE + word for word in words), _SPACE + BETWEEN)
        scores = (0.0,) * len(pieces)
        return cls(write_model(SentencePieceModel(pieces, scores, charsmap, WORD)), "The new model")

    def extended(self, words: Iterable[str]) -> WordTokenizer:
        """A tokenizer that knows further words too, behind those of this one, which keep their ids.

        Args:
            words: iterable of str, such as those of `WordVectors`. Each is spelt as this tokenizer spells words; what
                is known already, is no single word to it, or is longer than 80 characters, is left out.
        """
        model = read_model(self.model_bytes, "This tokenizer", WORD)
        known = dict.fromkeys(model.pieces[:-1])  # the last one is `BETWEEN`
        for word in words:
            found = self.words(word)
            if len(found) == 1 and len(found[0]) <= _LONGEST:
                known.setdefault(_SPACE + found[0])
        pieces = (*known, model.pieces[-1])
        scores = (0.0,) * len(pieces)
        return type(self)(write_model(SentencePieceModel(pieces, scores, model.charsmap, WORD)), "The new model")

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, the special ones included."""
        return self._processor.get_piece_size() - 1  # the last one is that of `BETWEEN`, which is in no text

    def words(self, text: str) -> list[str]:
        """The words of a text as the model sees them, known or not."""
        parts = self._processor.normalize(self._ready(text)).split(_SPACE)
        return [part for part in parts if part not in ("", BETWEEN)]

    def joined(self, word: str) -> str:
        """A word of a text that comes in words, spelt as the model spells it; "" where nothing of it is left."""
        return "".join(self.words(word))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the words of `text`, without start and end; `unk_id` for words that are not known."""
        if not isinstance(text, str):
            raise TypeError(
                f"`text` must be a str. Received {type(text).__name__}: {text!r}. Encode one text at a time."
            )
        return [index for index in self._processor.encode(self._ready(text)) if index < self.vocabulary_size]

    def encode_words(self, words: Sequence[str]) -> list[int]:
        """One id for each word of a text that comes in words, as in a file of columns."""
        return [self._word_id(word) for word in words]

    @functools.cached_property
    def _word_id(self) -> Any:
        @functools.lru_cache(maxsize=100_000)
        def find(word):
            index = self._processor.piece_to_id(_SPACE + self.joined(word))
            return self.unk_id if index in (self.pad_id, self.start_id, self.end_id) else index

        return find

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the words of `ids` with spaces between them: up to the first `end_id`, without padding and start."""
        kept = []
        for index in self._checked(ids):
            if index == self.end_id:
                break
            if index not in (self.pad_id, self.start_id):
                kept.append(index)
        return " ".join(self.tokens(kept))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the word of each id, special ones included."""
        return [piece.removeprefix(_SPACE) for piece in super().tokens(ids)]

    def graph_encode(self, strings: Any) -> Any:
        """`encode` in a graph: string (B,) in UTF-8 -> RaggedTensor int32 (B, words)."""
        import tensorflow as tf

        ids = super().graph_encode(tf.strings.join([strings, " "]))
        return tf.ragged.boolean_mask(ids, ids < self.vocabulary_size)

    def graph_words(self, strings: Any) -> Any:
        """`words` in a graph: string (B,) in UTF-8 -> RaggedTensor of string (B, words)."""
        return self._graph_words(strings)

    @functools.cached_property
    def _graph_words(self) -> Any:
        import tensorflow as tf

        tokenizer_class = _tensorflow_text().SentencepieceTokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def words(strings):
            with tf.name_scope("graph_words"):  # a SavedModel takes two models whose nodes have one name for one
                pieces = tokenizer_class(model=self._model_bytes, out_type=tf.string)
                found = pieces.tokenize(tf.strings.join([strings, " "]))
            found = found.with_values(tf.strings.regex_replace(found.values, _SPACE, ""))
            return tf.ragged.boolean_mask(found, (found != "") & (found != BETWEEN))

        return words

    @staticmethod
    def _ready(text: str) -> str:
        """`text` with the space at its end by which a short form is told."""
        return readable(text) + " "

"""A SentencePiece tokenizer that gives the same ids in Python, in a TensorFlow graph and on LiteRT."""

from __future__ import annotations

import functools
import io
import operator
import pathlib
import re
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

from keras_attention.text.normalize import HANGUL_SYLLABLES, normalization_rules, normalize, readable
from keras_attention.text.sentencepiece_model import MAX_BYTES, SPECIAL_PIECES, UNIGRAM, read_model, write_model

FILE_NAME = "sentencepiece.model"

# U+FFFD stands for what cannot be read and must stay unknown; SentencePiece skips sentences with U+2585 without a word.
_NOT_LEARNT = str.maketrans("\ufffd\u2585", "  ")
_TOO_HIGH = re.compile(r"Vocabulary size too high .*<= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")


class SentencePieceTokenizer:
    """Unigram SentencePiece: text to ids and back, with everything that decides an id inside one file.

    Kudo, 2018 (arXiv 1804.10959). Differs from the paper: no sampling.

    The model is unigram, without byte fallback, and carries `normalization_rules`, because that is what TensorFlow
    Text's plain tokenizer, its LiteRT one and the `sentencepiece` package all do alike: for any text, `encode`,
    `graph_encode` and `graph_encode_fast` give the same ids. (Bytes that are not UTF-8 read as U+FFFD, except that the
    LiteRT one may join two broken halves over a dropped character.) For any text t, `encode(normalize(t))` sees exactly
    `normalize(t)`, and where the vocabulary covers its characters, `decode(encode(normalize(t))) == normalize(t)`. The
    `normalize` may be left out, but for the oddities that `normalization_rules` names.

    A special piece written in a text ("<s>", "<pad>") is text like any other: no input gives a control id.

    Args:
        model: bytes. A serialized model, as `model_bytes` returns it.
        source: str. Where it came from, for messages.

    Raises:
        ValueError: `model` is no unigram model of ours, is damaged, or is larger than 16 MiB.

    Example:
        tokenizer = SentencePieceTokenizer.train(["to be", "or not to be"], 12)
        ids = tokenizer.encode("not to be")
        tokenizer.decode(ids)  # "not to be"
    """

    pad_id, unk_id, start_id, end_id = range(len(SPECIAL_PIECES))
    model_type = UNIGRAM
    file_name = FILE_NAME

    def __init__(self, model: bytes, source: str = "The data") -> None:
        import sentencepiece

        if not isinstance(model, bytes):
            raise TypeError(f"`model` must be bytes. Received {type(model).__name__}. Pass `tokenizer.model_bytes`.")
        self._model_bytes = write_model(read_model(model, source, self.model_type))
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model_bytes)
        except RuntimeError as error:
            raise ValueError(
                f"{source} is not a usable SentencePiece model: {error}. Copy or train it again."
            ) from error

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        vocabulary_size: int,
        *,
        character_coverage: float = 1.0,
        split_digits: bool = True,
    ) -> SentencePieceTokenizer:
        """Learns a vocabulary; the same sentences in the same order give the same bytes.

        Args:
            sentences: iterable of str. They are normalised first; held in memory.
            vocabulary_size: int. Pieces, the four special ones included.
            character_coverage: float in [0.98, 1]. Share of the running text's characters that get a piece; the
                rarest become unknown. Below 1 for Japanese or Chinese with small vocabularies.
            split_digits: bool. Each digit is its own piece, so that no number of the corpus ends in the vocabulary.

        Raises:
            TypeError: `sentences` is one str, or holds something else than str.
            ValueError: there is no text, or `vocabulary_size` is more than it can fill or less than its letters need.
        """
        if isinstance(sentences, str):
            raise TypeError("`sentences` must be an iterable of str. Received one str. Pass text.splitlines().")
        vocabulary_size = operator.index(vocabulary_size)
        if not 0.98 <= character_coverage <= 1:
            raise ValueError(
                f"`character_coverage` must be in [0.98, 1]. Received {character_coverage}. Use 1 for alphabets."
            )
        corpus = [text for text in (normalize(s).translate(_NOT_LEARNT) for s in sentences) if text.strip()]
        if not corpus:
            raise ValueError("`sentences` holds no text. Expected at least one sentence that is not white space.")
        if vocabulary_size <= len(SPECIAL_PIECES):
            raise ValueError(
                f"`vocabulary_size` must be above {len(SPECIAL_PIECES)}, the special pieces. "
                f"Received {vocabulary_size}. Usual are 4,000 to 16,000."
            )
        options = {"character_coverage": float(character_coverage), "split_digits": bool(split_digits)}
        return cls(_train(corpus, vocabulary_size, options), "The trained model")

    @classmethod
    def from_bytes(cls, model: bytes) -> SentencePieceTokenizer:
        """Makes a tokenizer of `model_bytes`."""
        return cls(model)

    @classmethod
    def load(cls, folder: str | pathlib.Path) -> SentencePieceTokenizer:
        """Reads the tokenizer's file out of `folder`.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is damaged, too large or of another kind; the message names the file.
        """
        path = pathlib.Path(folder) / cls.file_name
        if not path.is_file():
            raise FileNotFoundError(f"There is no {path}. Expected a folder that {cls.__name__}.save wrote.")
        with path.open("rb") as file:
            return cls(file.read(MAX_BYTES + 1), str(path))

    def save(self, folder: str | pathlib.Path) -> None:
        """Writes the tokenizer's file into `folder`, which is made if need be."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.file_name).write_bytes(self._model_bytes)

    def __reduce__(self) -> tuple[type[SentencePieceTokenizer], tuple[bytes]]:
        return type(self), (self._model_bytes,)  # copies and pickles carry the file, nothing native

    @property
    def model_bytes(self) -> bytes:
        """The serialized model: the contents of the file."""
        return self._model_bytes

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, the special ones included."""
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, without start and end; `unk_id` for runs of characters outside the vocabulary."""
        if not isinstance(text, str):
            raise TypeError(
                f"`text` must be a str. Received {type(text).__name__}: {text!r}. Encode one text at a time."
            )
        return self._processor.encode(readable(text))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids`: up to the first `end_id`, without padding and start; an unknown reads " ⁇ ".

        Raises:
            ValueError: an id is not in [0, vocabulary_size).
        """
        kept = []
        for index in self._checked(ids):
            if index == self.end_id:
                break
            if index not in (self.pad_id, self.start_id):
                kept.append(index)
        return re.sub(" +", " ", self._processor.decode(kept)).strip(" ") if kept else ""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, special ones included, as an axis of a map shows them; "▁" begins a word."""
        return [self._processor.id_to_piece(index) for index in self._checked(ids)]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids = [operator.index(index) for index in ids]
        for index in ids:
            if not 0 <= index < self.vocabulary_size:
                raise ValueError(
                    f"The id {index} is not in the vocabulary: expected 0 to {self.vocabulary_size - 1}. "
                    "Were the ids made by another tokenizer?"
                )
        return ids

    def graph_encode(self, strings: Any) -> Any:
        """`encode` in a graph: string (B,) in UTF-8 -> RaggedTensor int32 (B, ids).

        Like `graph_decode`, it may be called anywhere, in a `tf.function` or out of it, and is saved in a SavedModel
        as it is: the graph carries the model, so nothing has to be tracked.
        """
        return self._graph_functions[0](strings)

    def graph_decode(self, ids: Any) -> Any:
        """`decode` in a graph: int32 (B, T), padded with anything after `end_id` -> string (B,)."""
        return self._graph_functions[1](ids)

    @functools.cached_property
    def _graph_functions(self) -> tuple[Any, Any]:
        # The op that holds the model must be a node of the graph: made eagerly it is lost when TensorFlow clears its
        # kernels, as tf.random.set_seed does.
        import tensorflow as tf

        tokenizer_class = _tensorflow_text().SentencepieceTokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def encode(strings):
            return tokenizer_class(model=self._model_bytes).tokenize(strings)

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
        def decode(ids):
            texts = tokenizer_class(model=self._model_bytes).detokenize(self._kept(ids))
            return tf.strings.regex_replace(tf.strings.regex_replace(texts, " +", " "), "^ | $", "")

        return encode, decode

    def fast(self) -> Any:
        """Returns a new `tensorflow_text.FastSentencepieceTokenizer`, the one that runs on LiteRT (as custom ops)."""
        return _tensorflow_text().FastSentencepieceTokenizer(self._model_bytes)

    def graph_encode_fast(self, strings: Any) -> Any:
        """`graph_encode` with ops that LiteRT has; holds no resource."""
        return self._fast.tokenize(strings)

    def graph_decode_fast(self, ids: Any) -> Any:
        """`graph_decode` with ops that LiteRT has; spaces stay as the pieces bring them.

        Unlike `decode`, it may leave two spaces in a row or at an end (beside an unknown, or where a lone "▁" was
        produced): joining them takes a string op that LiteRT lacks, and is one line in any app.
        """
        return self._fast.detokenize(self._kept(ids))

    @functools.cached_property
    def _fast(self) -> Any:
        import tensorflow as tf

        with tf.init_scope():
            return self.fast()

    def _kept(self, ids: Any) -> Any:
        import tensorflow as tf

        ids = tf.convert_to_tensor(ids, tf.int32)
        ended = tf.cumsum(tf.cast(tf.equal(ids, self.end_id), tf.int32), axis=1) > 0
        special = tf.logical_or(tf.equal(ids, self.pad_id), tf.equal(ids, self.start_id))
        keep = tf.logical_not(tf.logical_or(ended, special))
        lengths = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1)
        flat = tf.boolean_mask(tf.reshape(ids, [-1]), tf.reshape(keep, [-1]))
        return tf.RaggedTensor.from_row_lengths(flat, lengths, validate=False)


def _train(corpus: Sequence[str], vocabulary_size: int, options: dict) -> bytes:
    hangul = any(HANGUL_SYLLABLES.start <= ord(c) < HANGUL_SYLLABLES.stop for c in set().union(*corpus))
    rules = normalization_rules(hangul=hangul)
    try:
        return train_model(corpus, rules, vocab_size=vocabulary_size, model_type="unigram", **options)
    except RuntimeError as error:
        raise ValueError(_explain(str(error), vocabulary_size)) from error


def train_model(corpus: Sequence[str], rules: dict[str, str], **options: Any) -> bytes:
    """A serialized model that SentencePiece trains on `corpus`, with these normalisation rules in it.

    Raises:
        RuntimeError: of SentencePiece.
    """
    import sentencepiece

    lines = "".join(f"{_hex(old)}\t{_hex(new)}\n" for old, new in sorted(rules.items()))
    output = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rules.tsv"
        path.write_text(lines, encoding="ascii", newline="\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus),
            model_writer=output,
            normalization_rule_tsv=str(path),
            max_sentence_length=2**30,
            num_threads=1,  # sums of floats depend on how many there are
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            minloglevel=2,
            **options,
        )
    return output.getvalue()


def _explain(message: str, vocabulary_size: int) -> str:
    if match := _TOO_HIGH.search(message):
        mend = f"This text allows at most {match[1]}: lower it, or give more text"
    elif match := _TOO_LOW.search(message):
        need = f"This text needs at least {match[2]}, its characters and the special pieces"
        mend = f"{need}: raise it, or lower `character_coverage`"
    else:
        mend = f"SentencePiece says: {message}"
    return f"`vocabulary_size` {vocabulary_size} does not fit these sentences. {mend}."


def _hex(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _tensorflow_text() -> Any:
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Text inside a graph needs tensorflow-text: run `pip install tensorflow-text`, in the version of your "
            "tensorflow. There is no wheel for some platforms; everything but text signatures works without it."
        ) from error
    return tensorflow_text

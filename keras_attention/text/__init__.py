"""Text in and out of ids, the same in Python, in a TensorFlow graph and on a phone. Importing loads no TensorFlow."""

from __future__ import annotations

from keras_attention.text.normalize import normalize
from keras_attention.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attention.text.word_tokenizer import WordTokenizer
from keras_attention.text.word_vectors import VectorError, WordVectors

__all__ = ["SentencePieceTokenizer", "VectorError", "WordTokenizer", "WordVectors", "normalize"]

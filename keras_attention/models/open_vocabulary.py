"""Ids of words that no vocabulary holds, made of their spelling: names that a training never saw can be pointed at."""

from __future__ import annotations

import functools

import tensorflow as tf

__all__ = ["BUCKETS", "graph_open_ids", "open_ids"]

BUCKETS = 2**20  # two words of a document seldom share one


def open_ids(tokenizer, text: str) -> list[int]:
    """The ids of the words of a text.

    Args:
        tokenizer: `text.WordTokenizer` of V words.
        text: str.

    Returns:
        For each word its id, or from V on, below V + `BUCKETS`, one that is made of its spelling.
    """
    ids = tokenizer.encode(text)
    if tokenizer.unk_id not in ids:
        return ids
    pairs = zip(ids, tokenizer.words(text), strict=True)
    return [tokenizer.vocabulary_size + _bucket(word) if index == tokenizer.unk_id else index for index, word in pairs]


@functools.lru_cache(maxsize=100_000)
def _bucket(word: str) -> int:
    return int(tf.strings.to_hash_bucket_fast(word, BUCKETS))


def graph_open_ids(tokenizer, strings):
    """`open_ids` in a graph: string (B,) → RaggedTensor int32 (B, words)."""
    strings = tf.strings.regex_replace(strings, r"\x00", "\ufffd")  # as the tokenizer has it in Python
    ids, words = tokenizer.graph_encode(strings), tokenizer.graph_words(strings)
    own = tokenizer.vocabulary_size + tf.cast(tf.strings.to_hash_bucket_fast(words.values, BUCKETS), tf.int32)
    return ids.with_values(tf.where(ids.values == tokenizer.unk_id, own, ids.values))

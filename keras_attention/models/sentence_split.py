"""Running text into sentences, in the graph: one row of word ids becomes rows of words, one a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

__all__ = ["split_sentences"]


def split_sentences(
    ids,
    end_ids: Sequence[int],
    max_sentences: int | None = None,
    max_words: int | None = None,
    keep_ends: bool = True,
):
    """Splits rows of word ids after the words that end a sentence.

    Several ends in a row, such as "?" and "!", end one sentence; words behind the last end are a sentence too. It takes
    ops that LiteRT has, and T, S and W may be open.

    Args:
        ids: int32 (B, T), padded on the right with 0.
        end_ids: ints > 0. Ids of the words that end a sentence.
        max_sentences: int > 0. Of more sentences the last ones are kept; None keeps all.
        max_words: int > 0. A longer sentence goes on as the next; None never breaks one.
        keep_ends: bool. Whether the ends are words of their sentences; otherwise they are left out, and with them
            sentences that have no other word.

    Returns:
        int32 (B, S, W), padded with 0: sentences first to last from place 0, each from place 0. S and W are those of
        the longest row and sentence, at least 1.

    Raises:
        ValueError: ids of another rank, no end, or a size < 1.
    """
    if len(ids.shape) != 2:
        raise ValueError(f"`ids` must be (B, T), word ids. Received {tuple(ids.shape)}.")
    end_ids = tuple(end_ids)
    if not end_ids or any(one < 1 for one in end_ids):
        raise ValueError(f"`end_ids` must be ids of words, at least one, each > 0. Received {list(end_ids)}.")
    for name, size in (("max_sentences", max_sentences), ("max_words", max_words)):
        if size is not None and size < 1:
            raise ValueError(f"`{name}` must be None or an int > 0. Received {size!r}.")
    ids = tf.cast(ids, tf.int32)
    kept, starts = _starts(ids, end_ids, keep_ends)
    sentence, word = _places(kept, starts)
    if max_words is not None:
        sentence, word = _places(kept, kept & (word % max_words == 0))
    count = tf.reduce_max(tf.where(kept, sentence + 1, 0), axis=1, keepdims=True)  # (B, 1)
    if max_sentences is not None:
        sentence -= tf.maximum(count - max_sentences, 0)
        kept &= sentence >= 0
        count = tf.minimum(count, max_sentences)
    rows, length = tf.shape(ids)[0], tf.shape(ids)[1]
    sentences = tf.maximum(tf.reduce_max(count), 1) if max_sentences != 1 else 1
    words = tf.maximum(tf.reduce_max(tf.where(kept, word + 1, 0)), 1)
    row = tf.range(rows)[:, None]
    place = tf.where(kept, (row * sentences + sentence) * words + word, 0)
    # What is not kept adds 0 to the first place.
    values = tf.reshape(tf.where(kept, ids, 0), [rows * length])
    flat = tf.scatter_nd(tf.reshape(place, [rows * length, 1]), values, [rows * sentences * words])
    return tf.reshape(flat, [ids.shape[0] or rows, sentences, words])


def _starts(ids, end_ids, keep_ends):
    """Which words are kept, and which of them are the first of their sentence: two bool (B, T)."""
    word = ids > 0
    end = tf.reduce_any(ids[..., None] == tf.constant(end_ids, tf.int32), axis=-1)
    content = word & ~end
    # The place before the first counts as an end.
    after_end = tf.pad(tf.cast(end, tf.int32), [[0, 0], [1, 0]], constant_values=1)[:, :-1] > 0
    if not keep_ends:
        return content, content & after_end
    first = tf.range(tf.shape(ids)[1])[None] == 0
    return word, word & ((content & after_end) | first)


def _places(kept, starts):
    """Number of its sentence and place in it, of each word that is kept: two int32 (B, T)."""
    sentence = tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)
    before = tf.cumsum(tf.cast(kept, tf.int32), axis=1) - tf.cast(kept, tf.int32)
    rows, length = tf.shape(kept)[0], tf.shape(kept)[1]
    own = tf.range(rows)[:, None] * length + sentence  # as if each row had T sentences
    at_start = tf.scatter_nd(
        tf.reshape(own, [rows * length, 1]), tf.reshape(tf.where(starts, before, 0), [rows * length]), [rows * length]
    )
    return sentence, before - tf.gather(at_start, own)

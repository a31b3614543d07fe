"""Sentences as vectors: the sum of their words' embeddings, in which the order of the words may count."""

from __future__ import annotations

from keras import ops

__all__ = ["sum_words", "word_weights"]


def word_weights(keep, position_encoding, dtype="float32", length=None):
    """What each word of a sentence counts in its sum; the same for all embeddings of that sentence.

    Sukhbaatar et al., 2015 (arXiv 1503.08895), section 4.1, position encoding: word j of J counts, in channel k of d,
    `l_kj = (1 − j/J) − (k/d)(1 − 2j/J)`, j and k from 1. J is the length of the sentence itself, without its padding.
    With `length` it is as the authors' code has it: J is the same for all sentences, and the weights are about twice as
    large, `l_kj = 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (d J)`.
    Both brackets depend on the word alone, so that the sum over the words is two sums, and never (…, W, d) numbers.

    Args:
        keep: bool (…, W), which words there are. What is not kept is not counted, wherever it stands.
        position_encoding: bool. Without it each word counts 1: a bag of words.
        dtype: of the result.
        length: int. J of all sentences; None takes the length of each. A word behind the J-th goes on as before it.

    Returns:
        (…, 2, W), what multiplies 1 and k/d, or (…, 1, W) of ones; 0 where nothing is kept.
    """
    count = ops.cast(keep, dtype)
    if not position_encoding:
        return ops.expand_dims(count, -2)
    place = ops.cumsum(count, axis=-1)
    if length is None:
        share = place / ops.maximum(ops.sum(count, axis=-1, keepdims=True), 1)
        return ops.stack([(1 - share) * count, (1 - 2 * share) * count], axis=-2)
    slope = 4 * (place - (length + 1) / 2) / length
    return ops.stack([count, -slope * count], axis=-2)


def sum_words(weights, embedded, centred=False):
    """The sum of the words: weights of `word_weights`, embedded (…, W, d) → sentences (…, d).

    `centred` goes with the `length` of the weights: k counts from the middle channel.
    """
    sums = ops.matmul(weights, embedded)  # (…, 1 or 2, d)
    if weights.shape[-2] == 1:
        return ops.squeeze(sums, -2)
    channels = embedded.shape[-1]
    first = -(channels - 1) / 2 if centred else 1
    share = (ops.arange(channels, dtype=embedded.dtype) + first) / channels  # k/d
    return sums[..., 0, :] - share * sums[..., 1, :]

"""Sentences split in the graph, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.models.sentence_split import split_sentences


def by_hand(row, ends, max_sentences, max_words, keep_ends):
    """Sentences of one row, word by word."""
    sentences, last_was_end = [[]], False
    for word in row:
        if word == 0:
            continue
        if word in ends:
            last_was_end = True
            if keep_ends:
                sentences[-1].append(word)
            continue
        if last_was_end:
            sentences.append([])
            last_was_end = False
        sentences[-1].append(word)
    found = []
    for sentence in sentences:
        while max_words and len(sentence) > max_words:
            found.append(sentence[:max_words])
            sentence = sentence[max_words:]
        if sentence:
            found.append(sentence)
    return found[-max_sentences:] if max_sentences else found


def unpadded(batch):
    return [[[int(word) for word in sentence if word] for sentence in row if sentence.any()] for row in batch]


def random_batch(random, rows, length, vocabulary):
    batch = random.integers(1, vocabulary, (rows, length))
    for row in batch:
        row[random.integers(0, length + 1) :] = 0
    return batch.astype("int32")


@pytest.mark.parametrize("keep_ends", [True, False])
@pytest.mark.parametrize("max_sentences, max_words", [(None, None), (3, None), (None, 2), (4, 3), (1, 1)])
def test_splits_as_plain_python_does(max_sentences, max_words, keep_ends):
    random = np.random.default_rng(5)
    options = {"max_sentences": max_sentences, "max_words": max_words, "keep_ends": keep_ends}
    for _ in range(60):
        batch = random_batch(random, random.integers(1, 5), random.integers(1, 19), random.integers(3, 9))
        got = split_sentences(tf.constant(batch), (1, 2), **options).numpy()
        expected = [by_hand(row, (1, 2), max_sentences, max_words, keep_ends) for row in batch]
        assert unpadded(got) == expected
        assert got.shape[1] == max(1, max(map(len, expected)))
        widest = [len(sentence) for row in expected for sentence in row]
        assert got.shape[2] == max(widest, default=1)
        for row in got:  # no gap: sentences and words begin at place 0
            used = row.any(axis=-1)
            assert not (used[1:] & ~used[:-1]).any()
            assert not ((row[:, 1:] > 0) & (row[:, :-1] == 0)).any()


def test_rows_do_not_see_each_other_or_their_padding():
    random = np.random.default_rng(6)
    batch = random_batch(random, 7, 15, 6)
    together = unpadded(split_sentences(tf.constant(batch), (1,), 3, 4).numpy())
    for row, expected in zip(batch, together, strict=True):
        alone = row[row > 0][None] if row.any() else row[None, :1]
        assert unpadded(split_sentences(tf.constant(alone), (1,), 3, 4).numpy()) == [expected]
        padded = np.pad(alone, [(0, 2), (0, 9)])
        assert unpadded(split_sentences(tf.constant(padded), (1,), 3, 4).numpy()) == [expected, [], []]


def test_nothing_to_read_is_one_empty_sentence():
    for ids in (np.zeros((2, 3), "int32"), np.zeros((2, 0), "int32")):
        np.testing.assert_array_equal(split_sentences(tf.constant(ids), (4,), 5, 6).numpy(), np.zeros((2, 1, 1)))
    only_ends = tf.constant([[4, 4, 0]])
    np.testing.assert_array_equal(split_sentences(only_ends, (4,), keep_ends=False).numpy(), [[[0]]])
    np.testing.assert_array_equal(split_sentences(only_ends, (4,)).numpy(), [[[4, 4]]])


def test_of_many_sentences_the_last_are_kept():
    ids = np.array([[5 + number % 7 if place == 0 else 4 for number in range(10_000) for place in range(2)]], "int32")
    got = split_sentences(tf.constant(ids), (4,), max_sentences=50, keep_ends=False).numpy()
    np.testing.assert_array_equal(got[0, :, 0], [5 + number % 7 for number in range(9_950, 10_000)])


@pytest.mark.parametrize("options", [{}, {"max_sentences": 3, "max_words": 4, "keep_ends": False}])
def test_runs_on_litert_with_built_in_ops_at_any_length(options, tmp_path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")

    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32, name="ids")])
    def split(ids):
        return {"sentences": split_sentences(ids, (1, 2), **options)}

    tf.saved_model.save(tf.Module(), tmp_path, signatures={"split": split.get_concrete_function()})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path), signature_keys=["split"])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    runner = interpreter.Interpreter(model_content=converter.convert()).get_signature_runner("split")
    random = np.random.default_rng(8)
    for length in (1, 4, 13, 40):
        ids = random_batch(random, 1, length, 6)
        np.testing.assert_array_equal(runner(ids=ids)["sentences"], split(tf.constant(ids))["sentences"].numpy())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([[[1]]], (1,)), r"`ids` must be \(B, T\)"),
        (([[1]], ()), "at least one"),
        (([[1]], (0,)), "each > 0"),
        (([[1]], (1,), 0), "`max_sentences` must be None or an int > 0. Received 0"),
        (([[1]], (1,), None, -2), "`max_words` must be None or an int > 0. Received -2"),
    ],
)
def test_what_cannot_be_split_is_told(arguments, message):
    ids, *others = arguments
    with pytest.raises(ValueError, match=message):
        split_sentences(tf.constant(ids), *others)

from __future__ import annotations

import pytest
import tensorflow as tf

from keras_attention.models.predicate_marks import graph_predicate, marked_predicate

BAD = {
    "The cat chased it": "No predicate is marked",
    "The [ cat ] [ chased ] it": r"There are 2 '\[' and 2 '\]'",
    "The [ cat chased ] it": "2 words stand there: 'cat chased'",
    "The [ ] cat": "0 words stand there",
    "The [ cat": "only one bracket stands there",
    "The ] cat [": "0 words stand there",
}


def test_the_marks_go_and_the_place_stays():
    assert marked_predicate(["The", "cat", "[", "chased", "]", "it"]) == (["The", "cat", "chased", "it"], 2)
    assert marked_predicate(["[", "Go", "]"]) == (["Go"], 0)


@pytest.mark.parametrize(("text", "message"), BAD.items())
def test_any_other_mark_is_an_error_in_python_and_in_the_graph(text, message):
    with pytest.raises(ValueError, match=message + r".*Put square brackets around the one word"):
        marked_predicate(text.split())
    words = tf.ragged.constant([text.split(), ["It", "[", "is", "]", "so"]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Each text needs one predicate"):
        tf.function(graph_predicate)(words)


def test_the_graph_finds_what_python_finds():
    rows = [["The", "cat", "[", "chased", "]", "it"], ["[", "Go", "]"], ["It", "[", "is", "]"]]
    kept, flags = tf.function(graph_predicate)(tf.ragged.constant(rows))
    for row, keep, flag in zip(rows, kept.to_list(), flags.to_list(), strict=True):
        words, place = marked_predicate(row)
        assert [word for word, keeps in zip(row, keep, strict=True) if keeps] == words
        assert flag == [2 if one == place else 1 for one in range(len(words))]

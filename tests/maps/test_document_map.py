from __future__ import annotations

import json

import numpy as np
import pytest

from keras_attention.maps import DocumentMap


def make(**change):
    given = {
        "weights": [[0.25, 0.75, 1.0]],
        "rows": ["review"],
        "columns": ["good", "film", "yes"],
        "sentence_lengths": [2, 1],
        "sentence_weights": [0.1, 0.9],
        **change,
    }
    return DocumentMap("words", "pooling", "attentive", **given)


def test_words_stand_in_their_sentences():
    assert make().sentences() == [(0.1, [(0.25, "good"), (0.75, "film")]), (0.9, [(1.0, "yes")])]


def test_it_comes_back_from_json():
    values = json.loads(json.dumps(make().to_dict()))
    copy = DocumentMap.from_dict(values)
    assert copy.to_dict() == values
    assert copy.sentence_weights == pytest.approx((0.1, 0.9))
    np.testing.assert_array_equal(copy.weights, make().weights)


def test_the_page_has_a_bar_a_sentence_and_a_shade_a_word():
    page = make(columns=["<good>", "film", "yes"]).html()
    assert page.count('class="sentence"') == 2
    assert page.count("<span") == 3
    assert "&lt;good&gt;" in page
    assert "<script" not in page
    assert 'title="sentence: 0.900"' in page
    assert 'title="0.750"' in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence_lengths": [2]}, "The sentences have 2 words of 3, and 2 weights for 1 sentences"),
        ({"sentence_lengths": [3, 0]}, "Expected a weight for each sentence, and each word in one"),
        ({"weights": np.ones((2, 3)) / 3, "rows": ["a", "b"]}, "The map of a document has one row"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        make(**change)

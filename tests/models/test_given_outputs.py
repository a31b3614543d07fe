"""Outputs that are given: scored and aligned, not searched for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.models.test_translation import SENTENCES
from tests.tiny import PAIRS, make_model


@pytest.fixture(scope="module")
def model():
    return make_model()


def test_texts_that_are_given_get_their_score_and_attention(model):
    targets = [target for _, target in PAIRS[:4]]
    found = model.translate(SENTENCES[:4], targets=targets, length_penalty=0.0)
    small = model.translate(SENTENCES[:4], targets=targets, length_penalty=0.0, batch_tokens=1, attention=False)
    for source, target, one, alone in zip(SENTENCES, targets, found, small, strict=False):
        ids = model.vectorize({"source": source, "target": target})
        loss, _ = model.loss_terms({name: tf.constant([row]) for name, row in ids.items()}, training=False)
        assert one.output == alone.output == target
        np.testing.assert_allclose(one.score, -float(loss), rtol=1e-4)
        np.testing.assert_allclose(alone.score, one.score, rtol=1e-4)
        assert alone.attention == [] and list(one.attention[0].rows) == model.tokenizer.tokens(ids["target"])
        by_length = model.translate(source, targets=target, length_penalty=1.0)
        np.testing.assert_allclose(by_length.score, one.score / ((5 + len(ids["target"])) / 6), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["a", "b"]}, "`targets` must be as many str as there are inputs, 1. Received 2"),
        ({"targets": [3]}, "`targets` must be as many str"),
        ({"targets": "a", "beam_size": 2}, "`targets` gives the outputs, `beam_size` says how to search"),
        ({"targets": "a", "temperature": 1.0}, "`temperature` says how to search"),
        ({"targets": ""}, "The target is empty"),
        ({"targets": "mot " * 60}, "The target has .* pieces; the model reads at most 31"),
    ],
)
def test_given_outputs_that_do_not_fit_are_named(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.translate("One.", **options)

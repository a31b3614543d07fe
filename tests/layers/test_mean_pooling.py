from __future__ import annotations

import keras
import numpy as np

from keras_attention.layers import MeanPooling
from tests.backends import to_float64

SEQUENCE = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
MASK = np.array([[True, False, True, True, False], [True] * 5])


def test_equals_the_pooling_of_keras_over_kept_places():
    theirs = keras.layers.GlobalAveragePooling1D()(SEQUENCE, mask=MASK)
    np.testing.assert_allclose(to_float64(MeanPooling()(SEQUENCE, mask=MASK)), to_float64(theirs), atol=1e-6)


def test_kept_places_share_the_weight():
    _, weights = MeanPooling()(SEQUENCE, mask=MASK, return_attention_scores=True)
    np.testing.assert_allclose(to_float64(weights), [[1 / 3, 0, 1 / 3, 1 / 3, 0], [1 / 5] * 5], rtol=1e-6)


def test_long_sequences_are_counted_right_in_half_precision():
    ones = np.ones((1, 3001, 2), "float32")  # float16 counts to 2048, bfloat16 to 256
    for policy in ("mixed_float16", "mixed_bfloat16"):
        context, weights = MeanPooling(dtype=policy)(ones, return_attention_scores=True)
        np.testing.assert_allclose(to_float64(weights).sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(to_float64(context), 1, rtol=1e-2)


def test_the_example_of_the_docstring_runs():
    context, weights = MeanPooling()(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5))

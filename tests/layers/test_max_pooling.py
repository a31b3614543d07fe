from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import MaxPooling
from tests.backends import gradients, to_float64

SEQUENCE = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
MASK = np.array([[True, False, True, True, False], [True] * 5])


def saliency(sequence, mask=None, **more):
    return to_float64(MaxPooling(**more)(sequence, mask=mask, return_attention_scores=True)[1])


def test_equals_the_pooling_of_keras():
    theirs = keras.layers.GlobalMaxPooling1D()(SEQUENCE)
    np.testing.assert_array_equal(to_float64(MaxPooling()(SEQUENCE)), to_float64(theirs))


def test_padding_never_wins_not_even_against_negative_values():
    sequence = -np.abs(SEQUENCE) - 1
    sequence[~MASK] = 0
    context = to_float64(MaxPooling()(sequence, mask=MASK))
    np.testing.assert_array_equal(context[0], sequence[0][MASK[0]].max(0))
    assert (context < 0).all() and (saliency(sequence, MASK)[0, ~MASK[0]] == 0).all()


def test_equal_maxima_share_their_channel():
    sequence = np.array([[[1.0, 5.0], [1.0, 2.0], [1.0, 5.0], [0.0, 5.0]]], "float32")
    # Channel 0: places 0, 1, 2; channel 1: places 0, 2, 3. Without place 2: 0, 1 and 0, 3.
    np.testing.assert_allclose(saliency(sequence), [[1 / 3, 1 / 6, 1 / 3, 1 / 6]], rtol=1e-6)
    mask = np.array([[True, True, False, True]])
    np.testing.assert_allclose(saliency(sequence, mask), [[1 / 2, 1 / 4, 0, 1 / 4]], rtol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_maximum_is_exact_in_half_precision(policy):
    rounded = to_float64(ops.cast(SEQUENCE, policy.removeprefix("mixed_")))
    np.testing.assert_array_equal(to_float64(MaxPooling(dtype=policy)(SEQUENCE)), rounded.max(1))
    lowest = np.full((1, 3, 2), -6e4, "float32")  # near the end of float16
    assert (to_float64(MaxPooling(dtype=policy)(lowest, mask=np.array([[True, False, True]]))) < -5.9e4).all()


def test_the_gradient_reaches_the_maxima_alone():
    (found,), _ = gradients(lambda one: ops.sum(MaxPooling()(one, mask=MASK)), [SEQUENCE])
    expected = np.zeros(SEQUENCE.shape)
    for b, d in np.ndindex(2, 6):
        places = np.flatnonzero(MASK[b])
        expected[b, places[SEQUENCE[b, places, d].argmax()], d] = 1
    np.testing.assert_array_equal(found, expected)


def test_there_is_no_gradient_through_the_weights():
    layer, directions = MaxPooling(), ops.reshape(ops.arange(10, dtype="float32"), (2, 5))

    def total(sequence):
        _, weights = layer(sequence, return_attention_scores=True)
        return ops.sum(weights * directions) + ops.sum(sequence)

    (found,), _ = gradients(total, [SEQUENCE])
    np.testing.assert_array_equal(found, np.ones(SEQUENCE.shape))  # of the plain sum alone


def test_the_example_of_the_docstring_runs():
    context, weights = MaxPooling()(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 6), (2, 5))

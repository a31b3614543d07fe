from __future__ import annotations

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from keras import ops

from keras_attention import alignments
from tests import reference
from tests.backends import float64_only, gradients, to_float64

SHAPE = (2, 3, 5)
# One shape only: backends that compile would compile again for each other one.
any_score = arrays.arrays("float32", SHAPE, elements=st.floats(-1e4, 1e4, width=32))
any_mask = arrays.arrays(bool, SHAPE)
several = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@several
@given(score=any_score, mask=any_mask)
def test_softmax_equals_the_reference_for_any_mask(score, mask):
    weights = to_float64(alignments.softmax(score, mask))
    np.testing.assert_allclose(weights, reference.masked_softmax(score.astype("float64"), mask), rtol=0, atol=1e-6)
    assert (weights[~mask] == 0).all()
    kept = mask.any(-1)
    np.testing.assert_allclose(weights.sum(-1)[kept], 1, atol=1e-5)
    assert (weights[~kept] == 0).all()


@several
@given(score=any_score, mask=any_mask)
def test_gradients_of_softmax_are_finite_and_0_where_masked(score, mask):
    directions = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    (gradient,), _ = gradients(lambda one: ops.sum(alignments.softmax(one, mask) * directions), [score])
    assert np.isfinite(gradient).all()
    assert (gradient[~mask] == 0).all()
    # Softmax does not change when all scores of a row rise together.
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-5)


@several
@given(score=any_score, mask=any_mask, hidden=st.sampled_from([-1e38, -1e30, -7.0, 0.0, 1e4, 1e30, 1e38]))
def test_masked_scores_change_nothing(score, mask, hidden):
    before = to_float64(alignments.softmax(score, mask))
    np.testing.assert_array_equal(
        to_float64(alignments.softmax(np.where(mask, score, np.float32(hidden)), mask)), before
    )


@pytest.mark.parametrize("shape", [(2, 1, 5), (1, 3, 5), (1, 1, 5), (2, 3, 1)])
def test_masks_broadcast(shape):
    score = np.random.normal(size=SHAPE).astype("float32")
    mask = np.random.default_rng(1).random(shape) < 0.5
    expected = reference.masked_softmax(score.astype("float64"), mask)
    np.testing.assert_allclose(to_float64(alignments.softmax(score, mask)), expected, rtol=0, atol=1e-6)


def test_no_mask_keeps_all():
    score = np.random.normal(size=SHAPE).astype("float32")
    expected = reference.masked_softmax(score.astype("float64"))
    np.testing.assert_allclose(to_float64(alignments.softmax(score)), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_float64(alignments.softmax(score, np.ones(SHAPE, bool))), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", [None, np.array([[[True]], [[False]]])], ids=["all", "half"])
def test_a_single_place_gets_all_without_a_warning(mask):
    weights = to_float64(alignments.softmax(np.array([[[7.0]], [[-3.0]]], "float32"), mask))
    np.testing.assert_array_equal(weights, np.ones((2, 1, 1)) if mask is None else mask)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_softmax_runs_in_float32(dtype):
    score = ops.cast(np.array([[300.0, 299.0, 100.0]], "float32"), dtype)  # exp(300) passes float16 and float32
    mask = np.array([[True, True, False]])
    weights = alignments.softmax(score, mask)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = reference.masked_softmax(to_float64(score), mask)
    np.testing.assert_allclose(to_float64(weights), expected, atol=1e-6)


@float64_only
def test_softmax_of_float64_stays_in_float64():
    score, mask = np.random.normal(size=SHAPE), np.random.default_rng(2).random(SHAPE) < 0.5
    weights = alignments.softmax(score, mask)
    assert keras.backend.standardize_dtype(weights.dtype) == "float64"
    np.testing.assert_allclose(to_float64(weights), reference.masked_softmax(score, mask), rtol=0, atol=1e-14)


@several
@given(
    value=st.none() | arrays.arrays(bool, (2, 5)),
    pair=st.none() | arrays.arrays(bool, SHAPE),
    query=st.none() | arrays.arrays(bool, (2, 3)),
    causal=st.booleans(),
)
def test_combined_mask_keeps_what_all_keep(value, pair, query, causal):
    mask = alignments.combine_masks(3, value, pair, query, causal, value_length=5)
    if value is None and pair is None and query is None and not causal:
        assert mask is None
        return
    expected = reference.full_mask(SHAPE, query, value, pair, causal)
    np.testing.assert_array_equal(np.broadcast_to(ops.convert_to_numpy(mask), SHAPE), expected)

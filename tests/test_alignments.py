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


ALIGNMENTS = {
    "softmax": (alignments.softmax, reference.masked_softmax),
    "sparsemax": (alignments.sparsemax, reference.masked_sparsemax),
    "entmax15": (alignments.entmax15, reference.masked_entmax15),
    "argmax": (alignments.argmax, reference.masked_argmax),
}
each_alignment = pytest.mark.parametrize(("align", "formula"), ALIGNMENTS.values(), ids=ALIGNMENTS.keys())
each_with_gradient = pytest.mark.parametrize(
    "align", [alignments.softmax, alignments.sparsemax, alignments.entmax15], ids=["softmax", "sparsemax", "entmax15"]
)


@each_alignment
@several
@given(score=any_score, mask=any_mask)
def test_weights_equal_the_reference_for_any_mask(align, formula, score, mask):
    weights = to_float64(align(score, mask))
    np.testing.assert_allclose(weights, formula(score.astype("float64"), mask), rtol=0, atol=2e-6)
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    kept = mask.any(-1)
    np.testing.assert_allclose(weights.sum(-1)[kept], 1, atol=1e-5)
    assert (weights[~kept] == 0).all()


@each_with_gradient
@several
@given(score=any_score, mask=any_mask)
def test_gradients_are_finite_and_0_where_masked(align, score, mask):
    directions = ops.convert_to_tensor(np.random.default_rng(0).normal(size=SHAPE), dtype="float32")
    (gradient,), _ = gradients(lambda one: ops.sum(align(one, mask) * directions), [score])
    assert np.isfinite(gradient).all()
    assert (gradient[~mask] == 0).all()
    # Weights do not change when all scores of a row rise together.
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-5)


@each_alignment
@several
@given(score=any_score, mask=any_mask, hidden=st.sampled_from([-1e38, -1e30, -7.0, 0.0, 1e4, 1e30, 1e38]))
def test_masked_scores_change_nothing(align, formula, score, mask, hidden):
    before = to_float64(align(score, mask))
    np.testing.assert_array_equal(to_float64(align(np.where(mask, score, np.float32(hidden)), mask)), before)


@each_alignment
@pytest.mark.parametrize("shape", [(2, 1, 5), (1, 3, 5), (1, 1, 5), (2, 3, 1)])
def test_masks_broadcast(align, formula, shape):
    score = np.random.normal(size=SHAPE).astype("float32")
    mask = np.random.default_rng(1).random(shape) < 0.5
    expected = formula(score.astype("float64"), mask)
    np.testing.assert_allclose(to_float64(align(score, mask)), expected, rtol=0, atol=1e-6)


@each_alignment
def test_no_mask_keeps_all(align, formula):
    score = np.random.normal(size=SHAPE).astype("float32")
    expected = formula(score.astype("float64"))
    np.testing.assert_allclose(to_float64(align(score)), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_float64(align(score, np.ones(SHAPE, bool))), expected, rtol=0, atol=1e-6)


@each_alignment
@pytest.mark.parametrize("mask", [None, np.array([[[True]], [[False]]])], ids=["all", "half"])
def test_a_single_place_gets_all_without_a_warning(align, formula, mask):
    weights = to_float64(align(np.array([[[7.0]], [[-3.0]]], "float32"), mask))
    np.testing.assert_array_equal(weights, np.ones((2, 1, 1)) if mask is None else mask)


@each_alignment
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_alignments_run_in_float32(align, formula, dtype):
    score = ops.cast(np.array([[300.0, 299.0, 100.0]], "float32"), dtype)  # exp(300) passes float16 and float32
    mask = np.array([[True, True, False]])
    weights = align(score, mask)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = formula(to_float64(score), mask)
    np.testing.assert_allclose(to_float64(weights), expected, atol=1e-6)


@float64_only
@each_alignment
def test_float64_stays_float64(align, formula):
    score, mask = np.random.normal(size=SHAPE), np.random.default_rng(2).random(SHAPE) < 0.5
    weights = align(score, mask)
    assert keras.backend.standardize_dtype(weights.dtype) == "float64"
    np.testing.assert_allclose(to_float64(weights), formula(score, mask), rtol=0, atol=1e-14)


@float64_only
@pytest.mark.parametrize("align", [alignments.sparsemax, alignments.entmax15], ids=["sparsemax", "entmax15"])
def test_gradients_of_sparse_alignments_are_those_of_finite_differences(align):
    rng, step = np.random.default_rng(5), 1e-6
    score, mask, directions = rng.normal(size=SHAPE), rng.random(SHAPE) < 0.7, rng.normal(size=SHAPE)
    weights = to_float64(align(score, mask))
    assert ((weights == 0) & mask).any() and (weights[mask] > 0).sum() > 6
    (gradient,), _ = gradients(lambda one: ops.sum(align(one, mask) * directions), [score])
    for place in np.ndindex(*SHAPE):
        moved = np.zeros(SHAPE)
        moved[place] = step
        ends = [to_float64(ops.sum(align(score + sign * moved, mask) * directions)) for sign in (1, -1)]
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


@each_with_gradient
def test_long_rows_sum_to_1(align):
    score = np.random.normal(size=(1, 1, 4000)).astype("float32") * 0.01
    np.testing.assert_allclose(to_float64(align(score)).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("align", [alignments.sparsemax, alignments.entmax15], ids=["sparsemax", "entmax15"])
def test_equal_scores_share_the_weight(align):
    np.testing.assert_allclose(to_float64(align(np.full((1, 1, 4), 3.0, "float32"))), 0.25, atol=1e-6)


def test_gumbel_softmax_is_softmax_with_seeded_noise():
    score, mask = np.random.normal(size=SHAPE).astype("float32"), np.random.default_rng(2).random(SHAPE) < 0.6
    weights = to_float64(alignments.gumbel_softmax(score, mask, temperature=0.7, seed=3))
    np.testing.assert_array_equal(to_float64(alignments.gumbel_softmax(score, mask, temperature=0.7, seed=3)), weights)
    assert not np.allclose(to_float64(alignments.gumbel_softmax(score, mask, temperature=0.7, seed=4)), weights)
    assert (weights[~mask] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), mask.any(-1), atol=1e-6)
    hot = to_float64(alignments.gumbel_softmax(score, mask, temperature=1e5, seed=3))
    np.testing.assert_allclose(hot, reference.masked_softmax(0 * score, mask), atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_samples_under_given_noise_run_in_float32(dtype):
    rng = np.random.default_rng(6)
    score = ops.cast(200 * rng.normal(size=SHAPE), dtype)
    mask, noise = rng.random(SHAPE) < 0.7, rng.gumbel(size=SHAPE)
    given = ops.convert_to_tensor(noise, dtype="float32")
    noisy = to_float64(score) + noise
    soft, expected = (
        alignments.gumbel_softmax(score, mask, 0.3, noise=given),
        reference.masked_softmax(noisy / 0.3, mask),
    )
    np.testing.assert_allclose(to_float64(soft), expected, atol=1e-3)  # of scores of 1e3, float32 holds 4 more digits
    hard = [
        alignments.straight_through_gumbel(score, mask, 0.3, noise=given),
        alignments.categorical(score, mask, noise=given),
    ]
    for weights in hard:
        np.testing.assert_array_equal(to_float64(weights), reference.masked_argmax(noisy, mask))
    assert {keras.backend.standardize_dtype(weights.dtype) for weights in (soft, *hard)} == {"float32"}


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_hard_samples_come_as_often_as_softmax_says(temperature):
    score = np.broadcast_to(np.array([0.3, -1.0, 1.2, 0.0], "float32"), (1, 8000, 4))
    mask = np.array([True, True, True, False])
    seed = keras.random.SeedGenerator(1)
    weights = to_float64(alignments.straight_through_gumbel(score, mask, temperature, seed))
    assert set(np.unique(weights)) == {0.0, 1.0} and (weights.sum(-1) == 1).all()
    expected = reference.masked_softmax(score[0, 0].astype("float64"), mask)
    np.testing.assert_allclose(weights.mean((0, 1)), expected, atol=4 * np.sqrt(0.25 / 8000))


def test_straight_through_has_the_gradient_of_the_soft_sample():
    score, mask = np.random.normal(size=SHAPE).astype("float32"), np.random.default_rng(2).random(SHAPE) < 0.6
    directions = ops.convert_to_tensor(np.random.default_rng(0).normal(size=SHAPE), dtype="float32")
    of_hard, of_soft = (
        gradients(lambda one, align=align: ops.sum(align(one, mask, 0.8, 3) * directions), [score])[0][0]
        for align in (alignments.straight_through_gumbel, alignments.gumbel_softmax)
    )
    np.testing.assert_allclose(of_hard, of_soft, atol=1e-6)
    assert (of_hard[~mask] == 0).all() and (of_hard != 0).any()


def test_windows_lie_about_their_position():
    places, position = np.arange(7, dtype="float32"), np.array([[0.0], [2.5], [6.0]], "float32")
    inside = ops.convert_to_numpy(alignments.fixed_window(position, places, 2))
    np.testing.assert_array_equal([np.flatnonzero(row).tolist() for row in inside[::2]], [[0, 1, 2], [4, 5, 6]])
    assert np.flatnonzero(inside[1]).tolist() == [1, 2, 3, 4]
    bell = to_float64(alignments.gaussian_window(position, places, 1.5))
    expected = [[np.exp(-((s - p) ** 2) / (2 * 1.5**2)) for s in range(7)] for p in (0, 2.5, 6)]
    np.testing.assert_allclose(bell, expected, atol=1e-6)


def test_get_gives_the_alignment_of_a_name_and_functions_as_they_are():
    for name, (align, _) in ALIGNMENTS.items():
        assert alignments.get(name) is align and alignments.serialize(align) == name
    assert alignments.get(reference.masked_softmax) is reference.masked_softmax


@pytest.mark.parametrize(
    ("alignment", "error", "message"),
    [
        ("sparsmax", ValueError, r"Unknown alignment 'sparsmax'\. Expected one of argmax, .* mean 'sparsemax'\?"),
        (3, TypeError, r"`alignment` must be a name or a function of score and mask\. Received 3"),
    ],
)
def test_get_says_what_is_wrong(alignment, error, message):
    with pytest.raises(error, match=message):
        alignments.get(alignment)


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

from __future__ import annotations

import json

import keras
import numpy as np
import pytest

from keras_attention.layers import OrthogonalityRegularizer
from tests.backends import gradients, to_float64


def expected(matrix):
    """Lin et al., 2017, equation 8, entry by entry."""
    rows = len(matrix)
    return sum((matrix[i] @ matrix[j] - (i == j)) ** 2 for i in range(rows) for j in range(rows))


def test_a_matrix_gets_the_squared_distance_of_its_products_from_identity():
    matrix = np.random.normal(size=(3, 5))
    assert to_float64(OrthogonalityRegularizer(0.7)(matrix)) == pytest.approx(0.7 * expected(matrix), rel=1e-5)


def test_a_batch_gets_the_mean_of_its_matrices():
    batch = np.random.normal(size=(4, 3, 5)).astype("float32")
    mean = np.mean([expected(matrix) for matrix in batch.astype("float64")])
    assert to_float64(OrthogonalityRegularizer()(batch)) == pytest.approx(mean, rel=1e-5)


def test_rows_at_right_angles_cost_nothing():
    orthogonal = np.linalg.qr(np.random.normal(size=(5, 5)))[0][:3].astype("float32")
    assert to_float64(OrthogonalityRegularizer()(orthogonal)) == pytest.approx(0, abs=1e-10)
    (gradient,), _ = gradients(OrthogonalityRegularizer(), [orthogonal * np.float32(2)])
    assert (gradient != 0).any() and np.isfinite(gradient).all()


def test_half_precision_is_summed_in_float32():
    matrix = keras.ops.cast(np.full((2, 200), 20.0), "float16")  # the product, 80,000, passes float16
    assert to_float64(OrthogonalityRegularizer()(matrix)) == pytest.approx(2 * 79999.0**2 + 2 * 80000.0**2, rel=1e-5)


def test_it_regularizes_the_weights_of_a_layer():
    layer = keras.layers.Dense(4, kernel_regularizer=OrthogonalityRegularizer(0.5))
    layer(np.ones((2, 3), "float32"))
    assert len(layer.losses) == 1
    assert to_float64(layer.losses[0]) == pytest.approx(0.5 * expected(to_float64(layer.kernel.value)), rel=1e-5)


def test_config_makes_an_equal_one():
    config = json.loads(json.dumps(keras.regularizers.serialize(OrthogonalityRegularizer(0.3))))
    twin = keras.regularizers.get(config)
    assert isinstance(twin, OrthogonalityRegularizer) and twin.factor == 0.3


def test_the_example_of_the_docstring_runs():
    assert float(OrthogonalityRegularizer(0.5)(keras.ops.ones((2, 3)))) == 13.0


@pytest.mark.parametrize("factor", [-1, "0.1", True])
def test_wrong_factors_are_refused(factor):
    with pytest.raises(ValueError, match=rf"`factor` must be a number >= 0\. Received {factor!r}"):
        OrthogonalityRegularizer(factor)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5)])
def test_other_ranks_are_refused(shape):
    with pytest.raises(ValueError, match=r"of a matrix \(r, T\) or a batch of them.*Received \([\d, ]+\)"):
        OrthogonalityRegularizer()(np.ones(shape, "float32"))

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from keras_attention.layers.row_noise import row_gumbel, row_uniform
from tests.backends import to_float64


def draw(seed, step, length, noise=row_uniform):
    return to_float64(
        noise(ops.convert_to_tensor(seed, dtype="int32"), ops.convert_to_tensor(step, dtype="int32"), length)
    )


def expected_bits(bits):
    """Wellons' hash of 32 bits, in Python's whole numbers."""
    bits = (bits + 0x3C6EF372) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = ((bits ^ (bits >> shift)) * factor) % 2**32
    return bits ^ (bits >> 16)


def test_numbers_are_the_hash_of_seed_step_and_place():
    seeds, steps = [0, 1, 2**31 - 1, 12345], [0, 7, 3, 2**30]
    got = draw(seeds, steps, 5)
    for row, (seed, step) in enumerate(zip(seeds, steps, strict=True)):
        base = expected_bits(expected_bits(seed) ^ step)
        for place in range(5):
            bits = expected_bits(base ^ expected_bits(place))
            assert got[row, place] == ((bits >> 9) + 0.5) / 2**23


@pytest.mark.parametrize("varied", ["seeds", "steps", "places"])
def test_numbers_are_even_and_independent(varied):
    """Of counted seeds, steps or places: means, variances, neighbours and shares of 16 bins, each within 4 errors."""
    number, zeros = 40000, np.zeros(40000, "int32")
    counted = np.arange(number, dtype="int32")
    if varied == "places":
        numbers = draw([3], [5], number)[0]
    else:
        numbers = draw(*((counted, zeros) if varied == "seeds" else (zeros + 3, counted)), 1)[:, 0]
    assert 0 < numbers.min() < 1e-3 and 1 - 1e-3 < numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=4 * np.sqrt(1 / 12 / number))
    assert numbers.var() == pytest.approx(1 / 12, abs=4 * np.sqrt(1 / 180 / number))
    assert np.corrcoef(numbers[:-1], numbers[1:])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(number))
    shares = np.histogram(numbers, 16, (0, 1))[0] / number
    np.testing.assert_allclose(shares, 1 / 16, atol=4 * np.sqrt(1 / 16 * 15 / 16 / number))


def test_a_shorter_row_is_the_beginning_of_a_longer_one():
    np.testing.assert_array_equal(draw([4, 9], [1, 2], 3), draw([4, 9], [1, 2], 8)[:, :3])


def test_gumbel_noise_has_its_mean_and_variance():
    noise = draw(np.arange(300), np.zeros(300), 200, row_gumbel)
    assert np.isfinite(noise).all()
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.03)
    assert noise.var() == pytest.approx(np.pi**2 / 6, rel=0.04)

from __future__ import annotations

from itertools import pairwise

import numpy as np

from keras_attention.maps import colours


def lightness(rgb: np.ndarray) -> np.ndarray:
    """CIE L* of sRGB colours 0..255 (IEC 61966-2-1 and CIE 1976)."""
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(luminance > (6 / 29) ** 3, 116 * np.cbrt(luminance) - 16, luminance * (29 / 3) ** 3)


def test_0_is_white_and_1_deep_red():
    assert colours.css(0.0) == "#ffffff"
    assert colours.css(1.0) == colours.css(1.0009) == "#8b0000"


def test_lightness_falls_evenly_from_white_to_deep_red():
    light = lightness(colours.TABLE.astype(float))
    assert (np.diff(light) < 0).all()
    even = np.linspace(light[0], light[-1], len(light))
    np.testing.assert_allclose(light, even, atol=2.5)  # of 72 steps; the stops are few


def test_colours_keep_the_shape_of_the_weights():
    assert colours.colours(np.zeros((2, 3, 5))).shape == (2, 3, 5, 3)


def test_the_text_on_a_colour_has_contrast():
    for weight in np.linspace(0, 1, 101):
        ink = 255.0 if colours.is_dark(weight) else 26.0
        rgb = np.stack([colours.colours(weight).astype(float), np.full(3, ink)])
        share = rgb / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        low, high = sorted(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
        assert high / low > 4, weight


def test_terminal_colours_run_from_white_to_dark_red_without_repeating_far_apart():
    codes = [colours.terminal(weight) for weight in np.linspace(0, 1, 21)]
    assert codes[0] == 231 and codes[-1] == 88
    changes = [codes[0]] + [after for before, after in pairwise(codes) if after != before]
    assert len(changes) == len(set(changes)) >= 6

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.backends import tensorflow_only, to_float64
from tests.layers.test_multi_head_attention import HEADS, VALUE_MASK, built, draw


@pytest.mark.parametrize("options", [{}, {"score": "general"}], ids=["scaled_dot", "general"])
def test_a_beam_gathers_prepared_keys_and_caches(options):
    layer, (query, value, key) = built(**options), draw()
    cache = layer.extend(layer.empty_cache(2, 4), value[:, 0], key[:, 0])
    for held in (layer.prepare(value, key, VALUE_MASK), cache):
        assert all(leaf.shape[0] == 2 for leaf in keras.tree.flatten(held))
        output, weights, _ = layer.attend(query[:, 0], held)
        beams = [1, 1, 0]
        gathered = keras.tree.map_structure(lambda leaf: keras.ops.take(leaf, [1, 1, 0], axis=0), held)
        assert type(gathered) is type(held)
        for got, expected in zip(layer.attend(query[beams, 0], gathered)[:2], (output, weights), strict=True):
            np.testing.assert_allclose(to_float64(got), to_float64(expected)[beams], rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"score": "concat", "units": 6}], ids=["scaled_dot", "concat"])
def test_a_cache_holds_what_prepare_makes_of_the_same_positions(options):
    layer, (query, value, key) = built(**options), draw()
    cache = layer.empty_cache(2, 8)
    nothing, weights, _ = layer.attend(query[:, 0], cache)
    assert (to_float64(nothing) == 0).all() and (to_float64(weights) == 0).all() and weights.shape == (2, HEADS, 8)
    for t in range(5):
        cache = layer.extend(cache, value[:, t], key[:, t], VALUE_MASK[:, t])
    prepared = layer.prepare(value, key, VALUE_MASK)
    np.testing.assert_array_equal(to_float64(cache.length), [5, 5])
    np.testing.assert_array_equal(to_float64(cache.mask)[:, :5], VALUE_MASK)
    assert not to_float64(cache.mask)[:, 5:].any()
    for held, at_once in ((cache.key, prepared.key), (cache.value, prepared.value)):
        np.testing.assert_allclose(to_float64(held)[:, :, :5], to_float64(at_once), rtol=0, atol=1e-6)
        assert (to_float64(held)[:, :, 5:] == 0).all()
    cached, at_once = (layer.attend(query[:, 1], held) for held in (cache, prepared))
    np.testing.assert_allclose(to_float64(cached[0]), to_float64(at_once[0]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_float64(cached[1])[..., :5], to_float64(at_once[1]), rtol=0, atol=1e-6)


def test_a_full_cache_is_an_error():
    layer, (_, value, key) = built(), draw()
    cache = layer.extend(layer.empty_cache(2, 1), value[:, 0], key[:, 0])
    with pytest.raises(ValueError, match=r"cache is full.*max_length=1.*Received position 2\. Make it longer"):
        layer.extend(cache, value[:, 1], key[:, 1])


@tensorflow_only
def test_a_full_cache_is_not_passed_over_in_a_graph():
    import tensorflow as tf

    layer, (query, value, key) = built(), draw()

    @tf.function
    def one_too_many(query, value, key, cache):
        return layer.attend(query, layer.extend(cache, value, key))[0]

    cache = layer.extend(layer.empty_cache(2, 1), value[:, 0], key[:, 0])
    cache = cache._replace(length=tf.constant([1, 0]))
    output = to_float64(one_too_many(query[:, 0], value[:, 1], key[:, 1], cache))
    assert np.isnan(output[0]).all() and np.isfinite(output[1]).all()


def test_a_wrong_position_says_what_is_wrong():
    layer, (_, value, key) = built(), draw()
    cache = layer.empty_cache(2, 4)
    with pytest.raises(ValueError, match=r"`extend` takes the value of one position, \(B, D\)\. Received \(2, 5, 6\)"):
        layer.extend(cache, value, key)
    with pytest.raises(ValueError, match=r"`mask` must be bool \(B,\), here \(2,\)\. Received \(2, 5\)"):
        layer.extend(cache, value[:, 0], key[:, 0], VALUE_MASK)
    with pytest.raises(ValueError, match=r"`max_length` must be an int > 0\. Received 0"):
        layer.empty_cache(2, 0)
    with pytest.raises(ValueError, match=r"`batch_size` must be an int > 0 or a scalar tensor\. Received 0"):
        layer.empty_cache(0, 4)

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import scores
from tests import reference
from tests.backends import float64_only, gradients, to_float64
from tests.layers.conformance import give_values

QUERY_DIM, KEY_DIM, UNITS = 7, 4, 6

SCORES = {
    "dot": (lambda **more: scores.DotScore(**more), reference.dot, QUERY_DIM),
    "scaled_dot": (lambda **more: scores.ScaledDotScore(**more), reference.scaled_dot, QUERY_DIM),
    "general": (lambda **more: scores.GeneralScore(**more), reference.general, KEY_DIM),
    "additive": (lambda **more: scores.AdditiveScore(UNITS, **more), reference.additive, KEY_DIM),
    "additive_bias": (lambda **more: scores.AdditiveScore(UNITS, use_bias=True, **more), reference.additive, KEY_DIM),
    "additive_normalized": (
        lambda **more: scores.AdditiveScore(UNITS, normalize=True, **more),
        reference.normalized_additive,
        KEY_DIM,
    ),
    "cosine": (lambda **more: scores.CosineScore(**more), reference.cosine, QUERY_DIM),
    "mlp": (lambda **more: scores.MLPScore(UNITS, **more), reference.mlp, KEY_DIM),
    "channel_bilinear": (
        lambda **more: scores.ChannelBilinearScore(4, **more),
        reference.channel_bilinear,
        KEY_DIM,
    ),
    "channel_additive": (
        lambda **more: scores.ChannelAdditiveScore(4, UNITS, **more),
        reference.channel_additive,
        KEY_DIM,
    ),
}
each_score = pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())


def expect(layer, formula, query, key):
    """What the reference makes of it, (B, Tq, Tv), or (B, C, Tq, Tv) of a score of several channels."""
    weights = {w.name: to_float64(w.value) for w in layer.weights}
    over_pairs = reference.channel_scores if layer.per_channel else reference.score_matrix
    return over_pairs(formula, query.astype("float64"), key.astype("float64"), weights)


def draw(key_dim, dtype="float32"):
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, 3, QUERY_DIM)).astype(dtype), rng.normal(size=(2, 5, key_dim)).astype(dtype)


def built(case, **more):
    make, formula, key_dim = case
    layer = make(**more)
    layer.build([(None, None, QUERY_DIM), (None, None, key_dim)])
    give_values(layer, 3)
    return layer, formula, key_dim


@each_score
def test_scores_are_those_of_the_papers(case):
    layer, formula, key_dim = built(case)
    query, key = draw(key_dim)
    expected = expect(layer, formula, query, key)
    np.testing.assert_allclose(to_float64(layer([query, key])), expected, rtol=1e-5, atol=1e-5)


@float64_only
@each_score
def test_scores_in_float64_are_those_of_the_papers(case):
    layer, formula, key_dim = built(case, dtype="float64")
    query, key = draw(key_dim, "float64")
    expected = expect(layer, formula, query, key)
    np.testing.assert_allclose(to_float64(layer([query, key])), expected, rtol=1e-12, atol=1e-12)


@each_score
def test_call_is_score_of_the_prepared_key(case):
    layer, _, key_dim = built(case)
    query, key = draw(key_dim)
    prepared = layer.prepare_key(key)
    assert prepared.shape[:2] == (2, 5)
    np.testing.assert_array_equal(to_float64(layer.score(query, prepared)), to_float64(layer([query, key])))


@each_score
def test_symbolic_shape_is_that_of_the_score(case):
    layer, _, key_dim = built(case)
    symbolic = layer([keras.Input((None, QUERY_DIM)), keras.Input((None, key_dim))])
    channels = (4,) if layer.per_channel else ()
    assert symbolic.shape == (None, *channels, None, None)
    assert layer([keras.Input((3, QUERY_DIM)), keras.Input((5, key_dim))]).shape == (None, *channels, 3, 5)


@each_score
def test_config_makes_an_equal_score(case):
    layer, _, key_dim = built(case)
    query, key = draw(key_dim)
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(twin) is type(layer) and len(twin.weights) == len(layer.weights)
    twin.set_weights(layer.get_weights())
    np.testing.assert_array_equal(to_float64(twin([query, key])), to_float64(layer([query, key])))


def test_plain_functions_are_those_of_the_papers():
    rng = np.random.default_rng(4)
    query, key, same_width = (rng.normal(size=s).astype("float32") for s in ((2, 3, 7), (2, 5, 4), (2, 5, 7)))
    kernel, scale = rng.normal(size=(4, 7)).astype("float32"), rng.normal(size=7).astype("float32")
    hidden = rng.normal(size=(2, 5, 7)).astype("float32")
    identity = {"query_kernel": np.eye(7), "key_kernel": np.eye(7), "scale": scale}
    for got, formula, weights, keys in (
        (scores.dot(query, same_width), reference.dot, {}, same_width),
        (scores.scaled_dot(query, same_width), reference.scaled_dot, {}, same_width),
        (scores.general(query, key, kernel), reference.general, {"kernel": kernel}, key),
        (scores.additive(query, hidden, scale), reference.additive, identity, hidden),
        (scores.cosine(query, same_width), reference.cosine, {}, same_width),
        (scores.mlp(query, hidden, scale, 0.3), reference.mlp, {**identity, "bias": 0, "output_bias": 0.3}, hidden),
    ):
        expected = reference.score_matrix(formula, query.astype("float64"), keys.astype("float64"), weights)
        np.testing.assert_allclose(to_float64(got), expected, rtol=1e-5, atol=1e-5)


def test_plain_functions_of_channels_are_those_of_the_papers():
    rng = np.random.default_rng(4)
    query, key = (rng.normal(size=s).astype("float32") for s in ((2, 3, 7), (2, 5, 4)))
    kernel = rng.normal(size=(6, 4, 7)).astype("float32")
    expected = reference.channel_scores(reference.channel_bilinear, query, key, {"kernel": kernel})
    np.testing.assert_allclose(to_float64(scores.channel_bilinear(query, key, kernel)), expected, atol=1e-5)

    hidden, output = rng.normal(size=(2, 5, 7)).astype("float32"), rng.normal(size=(7, 6)).astype("float32")
    weights = {"query_kernel": np.eye(7), "key_kernel": np.eye(7), "bias": 0, "output_kernel": output}
    expected = reference.channel_scores(reference.channel_additive, query, hidden, weights)
    np.testing.assert_allclose(to_float64(scores.channel_additive(query, hidden, output)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dot", scores.DotScore),
        ("scaled_dot", scores.ScaledDotScore),
        ("general", scores.GeneralScore),
        ("additive", scores.AdditiveScore),
        ("concat", scores.AdditiveScore),
        ("cosine", scores.CosineScore),
        ("mlp", scores.MLPScore),
        ("channel_additive", scores.ChannelAdditiveScore),
        ("channel_bilinear", scores.ChannelBilinearScore),
    ],
)
def test_get_makes_the_score_of_a_name(name, kind):
    units = UNITS if kind in (scores.AdditiveScore, scores.MLPScore, scores.ChannelAdditiveScore) else None
    made = scores.get(name, units=units, channels=4 if kind.per_channel else None, dtype="mixed_bfloat16")
    assert type(made) is kind
    assert made.dtype_policy.name == "mixed_bfloat16"


def test_get_passes_options_on_and_returns_a_score_as_it_is():
    made = scores.get("additive", units=3, normalize=True)
    assert made.normalize and made.units == 3
    assert scores.get(made) is made


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"score": "dott"}, ValueError, r"Unknown score 'dott'\. Expected one of additive, .*concat, .* mean 'dot'"),
        ({"score": "zzz"}, ValueError, r"Unknown score 'zzz'\. Expected one of .*scaled_dot\.$"),
        ({"score": None}, TypeError, r"`score` must be a name .*Received None"),
        ({"score": "concat"}, ValueError, r"'concat' has a hidden layer: give its width as `units`"),
        ({"score": "dot", "units": 4}, ValueError, r"'dot' has no hidden layer.*units=4"),
        ({"score": "mlp"}, ValueError, r"'mlp' has a hidden layer: give its width as `units`"),
        ({"score": "dot", "channels": 4}, ValueError, r"'dot' has no channels.*channels=4"),
        ({"score": "channel_bilinear"}, ValueError, r"one score a channel: give their number as `channels`"),
        ({"score": "channel_bilinear", "channels": 0}, ValueError, r"`channels` must be an int > 0\. Received 0"),
        ({"score": "additive", "units": 0}, ValueError, r"`units` must be an int > 0\. Received 0"),
    ],
)
def test_get_says_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        scores.get(**arguments)


@pytest.mark.parametrize("kind", [scores.DotScore, scores.ScaledDotScore, scores.CosineScore])
def test_dot_wants_queries_and_keys_of_one_width(kind):
    with pytest.raises(ValueError, match=rf"{kind.__name__} needs .* same width.*\(2, 3, 7\).*\(2, 5, 4\).*'general'"):
        kind()(list(draw(KEY_DIM)))


def test_a_score_without_a_formula_says_so():
    class Empty(scores.Score):
        pass

    with pytest.raises(TypeError, match=r"Empty defines no `score\(query, prepared_key\)`"):
        Empty()(list(draw(KEY_DIM)))


def test_dot_of_float16_passes_its_range():
    query, key = np.full((1, 1, 7), 300.0, "float16"), np.full((1, 2, 7), 200.0, "float16")
    np.testing.assert_array_equal(to_float64(scores.dot(query, key)), np.full((1, 1, 2), 420000.0))


def test_cosine_of_float16_passes_its_range_and_0_has_no_direction():
    query, key = np.full((1, 1, 7), 300.0, "float16"), np.full((1, 2, 7), -200.0, "float16")
    key[0, 1] = 0
    np.testing.assert_allclose(to_float64(scores.cosine(query, key)), [[[-1, 0]]], atol=1e-3)


def test_cosine_of_a_vector_of_0_has_finite_gradients():
    query, key = np.ones((1, 1, 7), "float32"), np.zeros((1, 1, 7), "float32")
    (of_query, of_key), _ = gradients(lambda q, k: ops.sum(scores.cosine(q, k)), [query, key])
    assert np.isfinite(of_query).all() and np.isfinite(of_key).all()

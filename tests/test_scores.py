from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention import scores
from tests import reference
from tests.backends import float64_only, to_float64
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
}
each_score = pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())


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
    expected = reference.score_matrix(formula, query, key, {w.name: to_float64(w.value) for w in layer.weights})
    np.testing.assert_allclose(to_float64(layer([query, key])), expected, rtol=1e-5, atol=1e-5)


@float64_only
@each_score
def test_scores_in_float64_are_those_of_the_papers(case):
    layer, formula, key_dim = built(case, dtype="float64")
    query, key = draw(key_dim, "float64")
    expected = reference.score_matrix(formula, query, key, {w.name: to_float64(w.value) for w in layer.weights})
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
    assert symbolic.shape == (None, None, None)
    assert layer([keras.Input((3, QUERY_DIM)), keras.Input((5, key_dim))]).shape == (None, 3, 5)


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
    ):
        expected = reference.score_matrix(formula, query.astype("float64"), keys.astype("float64"), weights)
        np.testing.assert_allclose(to_float64(got), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dot", scores.DotScore),
        ("scaled_dot", scores.ScaledDotScore),
        ("general", scores.GeneralScore),
        ("additive", scores.AdditiveScore),
        ("concat", scores.AdditiveScore),
    ],
)
def test_get_makes_the_score_of_a_name(name, kind):
    units = UNITS if kind is scores.AdditiveScore else None
    made = scores.get(name, units=units, dtype="mixed_bfloat16")
    assert type(made) is kind
    assert made.dtype_policy.name == "mixed_bfloat16"


def test_get_passes_options_on_and_returns_a_score_as_it_is():
    made = scores.get("additive", units=3, normalize=True)
    assert made.normalize and made.units == 3
    assert scores.get(made) is made


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"score": "dott"}, ValueError, r"Unknown score 'dott'\. Expected one of additive, concat, dot, .* mean 'dot'"),
        ({"score": "zzz"}, ValueError, r"Unknown score 'zzz'\. Expected one of .*scaled_dot\.$"),
        ({"score": None}, TypeError, r"`score` must be a name .*Received None"),
        ({"score": "concat"}, ValueError, r"'concat' has a hidden layer: give its width as `units`"),
        ({"score": "dot", "units": 4}, ValueError, r"'dot' has no hidden layer.*units=4"),
        ({"score": "additive", "units": 0}, ValueError, r"`units` must be an int > 0\. Received 0"),
    ],
)
def test_get_says_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        scores.get(**arguments)


@pytest.mark.parametrize("kind", [scores.DotScore, scores.ScaledDotScore])
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

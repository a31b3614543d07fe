from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import HardAttention
from tests import reference
from tests.backends import gradients, to_float64
from tests.layers.conformance import attend, give_values, masks

_, VALUE_MASK, _ = masks()


def built(**more):
    layer = HardAttention(**{"score": "general", "seed": 1, **more})
    layer.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    give_values(layer, 1)
    return layer


def draw(query_length=3):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in ((2, query_length, 7), (2, 5, 6), (2, 5, 4))]


def test_without_training_the_best_value_is_read():
    layer, (query, value, key) = built(), draw()
    context, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    matrix = reference.score_matrix(reference.general, query, key, {"kernel": to_float64(layer.score.kernel.value)})
    best = np.where(VALUE_MASK[:, None], matrix, -np.inf).argmax(-1)
    np.testing.assert_array_equal(weights.argmax(-1), best)
    np.testing.assert_allclose(context, np.take_along_axis(value, best[..., None], 1), atol=1e-6)


@pytest.mark.parametrize("sample", ["straight_through", "categorical"])
def test_in_training_places_come_as_often_as_softmax_says(sample):
    layer, (query, value, key) = built(temperature=0.5, sample=sample), draw(1)
    query = np.repeat(query * 0.3, 4000, axis=1)
    _, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK], training=True)
    assert set(np.unique(weights)) == {0.0, 1.0} and (weights.sum(-1) == 1).all()
    matrix = reference.score_matrix(
        reference.general, query[:, :1], key, {"kernel": to_float64(layer.score.kernel.value)}
    )
    expected = reference.masked_softmax(matrix, VALUE_MASK[:, None])[:, 0]
    np.testing.assert_allclose(weights.mean(1), expected, atol=4 * np.sqrt(0.25 / 4000))


def test_soft_samples_sharpen_as_the_temperature_falls():
    layer, inputs = built(sample="gumbel_softmax"), draw(200)
    highest = []
    for temperature in (5.0, 1.0, 0.05):
        layer.temperature.assign(temperature)
        _, weights = attend(layer, inputs, training=True)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        highest.append(weights.max(-1).mean())
    assert highest[0] < highest[1] < highest[2] and highest[2] > 0.97


@pytest.mark.parametrize("sample", ["straight_through", "gumbel_softmax"])
def test_in_training_the_score_gets_a_gradient_and_padding_none(sample):
    layer, inputs = built(sample=sample, score="concat", units=8), draw()
    value_mask = np.array([[False] * 5, [True, True, True, False, False]])

    def function(query, value, key):
        return ops.sum(layer([query, value, key], mask=[None, value_mask], training=True) ** 2)

    (of_query, of_value, of_key), of_weights = gradients(function, inputs, layer.trainable_variables)
    for gradient in (of_query, of_value, of_key, *of_weights):
        assert np.isfinite(gradient).all() and (gradient != 0).any()
    assert (of_query[0] == 0).all() and (of_value[~value_mask] == 0).all() and (of_key[~value_mask] == 0).all()


def test_both_samples_of_one_seed_have_the_same_gradient_of_the_score():
    inputs = draw()
    directions = np.random.default_rng(5).normal(size=(2, 3, 6)).astype("float32")
    found = []
    for sample in ("straight_through", "gumbel_softmax"):
        layer = built(sample=sample, temperature=0.8)
        function = lambda q, v, k, layer=layer: ops.sum(layer([q, v, k], training=True) * directions)  # noqa: E731
        found.append(gradients(function, inputs, layer.trainable_variables)[1][0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_samples_are_seeded_and_new_at_each_call():
    first, second, inputs = built(), built(), draw(50)
    in_training = attend(first, inputs, training=True)[1]
    np.testing.assert_array_equal(attend(second, inputs, training=True)[1], in_training)
    assert not np.array_equal(attend(first, inputs, training=True)[1], in_training)
    assert not np.array_equal(attend(built(seed=2), inputs, training=True)[1], in_training)


def test_log_probability_and_entropy_are_those_of_softmax():
    layer, (query, value, key) = built(sample="categorical"), draw()
    arguments = {"mask": [np.array([[True, True, False]] * 2), VALUE_MASK], "use_causal_mask": True}
    weights = layer([query, value, key], return_attention_scores=True, training=True, **arguments)[1]
    log, entropy = layer.log_probability([query, value, key], weights, **arguments)
    matrix = reference.score_matrix(reference.general, query, key, {"kernel": to_float64(layer.score.kernel.value)})
    keep = reference.full_mask((2, 3, 5), arguments["mask"][0], VALUE_MASK, causal=True)
    share = reference.masked_softmax(matrix, keep)
    drawn = np.where(to_float64(weights) > 0, share, 1).prod(-1)
    np.testing.assert_allclose(to_float64(log), np.log(drawn), atol=1e-5)
    np.testing.assert_allclose(to_float64(entropy), -(share * np.log(np.where(share > 0, share, 1))).sum(-1), atol=1e-5)
    assert (to_float64(log)[:, 2] == 0).all() and (to_float64(log)[:, 1] < 0).all()


def test_categorical_samples_pass_no_gradient_but_their_probability_does():
    layer, inputs = built(sample="categorical"), draw()
    weights = layer(inputs, return_attention_scores=True, training=True)[1]
    empty = [None, np.array([[False] * 5, [True] * 5])]

    def of_probability(query, value, key):
        log, entropy = layer.log_probability([query, value, key], weights * empty[1][:, None], mask=empty)
        return ops.sum(log) + ops.sum(entropy)

    (of_query, _, of_key), (of_kernel,) = gradients(of_probability, inputs, layer.trainable_variables)
    assert np.isfinite(of_query).all() and np.isfinite(of_key).all() and np.isfinite(of_kernel).all()
    assert (of_query[0] == 0).all() and (of_query[1] != 0).any() and (of_kernel != 0).any()
    _, (direct,) = gradients(
        lambda q, v, k: ops.sum(layer([q, v, k], training=True)), inputs, layer.trainable_variables
    )
    assert (direct == 0).all()


def test_steps_draw_in_training_too():
    layer, (query, value, key) = built(), draw(1)
    prepared = layer.prepare(value, key)
    drawn = {
        tuple(to_float64(layer.attend(query[:, 0] * 0.1, prepared, (), training=True)[1]).argmax(-1)) for _ in range(20)
    }
    assert len(drawn) > 3
    still = {tuple(to_float64(layer.attend(query[:, 0] * 0.1, prepared)[1]).argmax(-1)) for _ in range(3)}
    assert len(still) == 1


def test_temperature_is_no_trained_weight_and_is_saved():
    layer = built(temperature=0.3)
    assert [w.name for w in layer.non_trainable_weights] == ["temperature"]
    assert to_float64(layer.temperature.value) == pytest.approx(0.3)


def test_config_names_all_arguments():
    layer = HardAttention("concat", 8, "gumbel_softmax", 0.5, dropout=0.25, seed=4, name="looks")
    expected = {"score": "concat", "units": 8, "sample": "gumbel_softmax", "temperature": 0.5}
    assert layer.get_config().items() >= {**expected, "dropout": 0.25, "seed": 4, "name": "looks"}.items()
    twin = HardAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert twin.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sample": "gumbel"},
            r"`sample` must be one of categorical, gumbel_softmax, straight_through\. Received 'gumbel'",
        ),
        ({"temperature": 0}, r"`temperature` must be a number > 0\. Received 0"),
        ({"temperature": True}, r"`temperature` must be a number > 0\. Received True"),
        ({"score": "genral"}, r"Unknown score 'genral'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        HardAttention(**arguments)


def test_the_example_of_the_docstring_runs():
    layer = HardAttention(score="general")
    query, value = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 6))
    context, weights = layer([query, value], return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 3, 6), (2, 3, 5))

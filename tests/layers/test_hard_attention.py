from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import HardAttention, reinforce_loss
from tests import reference
from tests.backends import gradients, tensorflow_only, to_float64
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
    directions = ops.convert_to_tensor(np.random.default_rng(5).normal(size=(2, 3, 6)), dtype="float32")
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
    seen = ops.cast(empty[1][:, None], "float32")

    def of_probability(query, value, key):
        log, entropy = layer.log_probability([query, value, key], weights * seen, mask=empty)
        return ops.sum(log) + ops.sum(entropy)

    (of_query, _, of_key), (of_kernel,) = gradients(of_probability, inputs, layer.trainable_variables)
    assert np.isfinite(of_query).all() and np.isfinite(of_key).all() and np.isfinite(of_kernel).all()
    assert (of_query[0] == 0).all() and (of_query[1] != 0).any() and (of_kernel != 0).any()
    _, (direct,) = gradients(
        lambda q, v, k: ops.sum(layer([q, v, k], training=True)), inputs, layer.trainable_variables
    )
    assert (direct == 0).all()


def test_several_samples_are_drawn_side_by_side():
    layer, (query, value, key) = built(sample="categorical"), draw()
    arguments = {"mask": [np.array([[True, True, False]] * 2), VALUE_MASK], "use_causal_mask": True}
    drawn = layer.draw([query * 0.3, value, key], 2000, **arguments)
    context, weights, log, entropy = (to_float64(one) for one in drawn)
    assert weights.shape == (2, 2000, 3, 5) and context.shape == (2, 2000, 3, 6)
    matrix = reference.score_matrix(
        reference.general, query * 0.3, key, {"kernel": to_float64(layer.score.kernel.value)}
    )
    keep = reference.full_mask((2, 3, 5), arguments["mask"][0], VALUE_MASK, causal=True)
    share = reference.masked_softmax(matrix, keep)
    assert set(np.unique(weights)) == {0.0, 1.0}
    np.testing.assert_allclose(weights.mean(1), share, atol=4 * np.sqrt(0.25 / 2000))
    np.testing.assert_allclose(context, np.einsum("bmqv,bvd->bmqd", weights, value), atol=1e-6)
    likelihood = np.where(weights > 0, np.log(np.where(share > 0, share, 1))[:, None], 0).sum(-1)
    np.testing.assert_allclose(log, likelihood, atol=1e-5)
    np.testing.assert_allclose(entropy, -(share * np.log(np.where(share > 0, share, 1))).sum(-1), atol=1e-5)
    assert (weights[:, :, 2] == 0).all() and (log[:, :, 2] == 0).all() and (entropy[:, 2] == 0).all()


def test_drawing_builds_the_layer_and_one_sample_is_one():
    drawn = HardAttention("dot", seed=1).draw([np.ones((2, 3, 6), "float32"), np.ones((2, 5, 6), "float32")])
    assert drawn.weights.shape == (2, 1, 3, 5) and drawn.entropy.shape == (2, 3)
    with pytest.raises(ValueError, match=r"`num_samples` must be an int > 0\. Received 0"):
        built().draw(draw(), 0)


def estimates(num_samples, draws=4000):
    """REINFORCE estimates of the gradient of the scores, one a row of a batch of equals → (draws, 4); and the truth.

    The reward of a place is its value: `d Σ_s p_s r_s / d e_s = p_s (r_s − Σ p r)`.
    """
    rng = np.random.default_rng(0)
    scores, rewards = rng.normal(size=4).astype("float32"), rng.normal(size=4).astype("float32")
    key = np.tile(scores[None, :, None], (draws, 1, 1))  # under a query of 1 the score is the key
    value, query = np.tile(rewards[None, :, None], (draws, 1, 1)), np.ones((draws, 1, 1), "float32")
    layer = HardAttention("dot", sample="categorical", seed=3)

    def loss(key):
        drawn = layer.draw([query, value, key], num_samples)
        reward = ops.stop_gradient(drawn.context)[:, :, 0, 0]
        return ops.sum(ops.mean(reinforce_loss(reward, drawn.log_probability[:, :, 0]), axis=1))

    (of_key,), _ = gradients(loss, [key])
    share = reference.masked_softmax(scores[None].astype("float64"))[0]
    return -of_key[..., 0], share * (rewards - share @ rewards)


def test_more_samples_leave_the_mean_of_reinforce_and_lower_its_variance():
    (one, truth), (eight, _) = estimates(1), estimates(8)
    for found in (one, eight):
        error = np.sqrt(found.var(0).max() / len(found))
        np.testing.assert_allclose(found.mean(0), truth, rtol=0, atol=4 * error)
    assert np.abs(truth).max() > 0.1
    np.testing.assert_allclose(eight.var(0) / one.var(0), 1 / 8, rtol=0.15)


def test_steps_draw_in_training_too():
    layer, (query, value, key) = built(), draw(1)
    prepared = layer.prepare(value, key)
    drawn = {
        tuple(to_float64(layer.attend(query[:, 0] * 0.1, prepared, (), training=True)[1]).argmax(-1)) for _ in range(20)
    }
    assert len(drawn) > 3
    still = {tuple(to_float64(layer.attend(query[:, 0] * 0.1, prepared)[1]).argmax(-1)) for _ in range(3)}
    assert len(still) == 1


def steps(layer, query, prepared, state, number):
    """Weights of some steps of one query, (number, B, Tv), and the state after them."""
    weights = []
    for _ in range(number):
        _, one, state = layer.attend(query, prepared, state, training=True)
        weights.append(to_float64(one))
    return np.stack(weights), state


def test_the_samples_of_steps_come_from_the_state_alone():
    layer, (query, value, key) = built(), draw(1)
    query, prepared = query[:, 0] * 0.1, layer.prepare(value, key, VALUE_MASK)
    start = layer.initial_state(prepared, training=True)
    assert all(leaf.shape == (2,) for leaf in keras.tree.flatten(start))
    weights, end = steps(layer, query, prepared, start, 20)
    np.testing.assert_array_equal(steps(layer, query, prepared, start, 20)[0], weights)
    assert to_float64(end.step).tolist() == [20, 20]
    assert len(np.unique(weights.argmax(-1)[:, 1])) > 2  # steps draw anew
    assert set(np.unique(weights)) == {0.0, 1.0} and (weights[:, ~VALUE_MASK] == 0).all()
    other = steps(layer, query, prepared, layer.initial_state(prepared, training=True), 20)[0]
    assert not np.array_equal(other, weights)

    twin = built()
    np.testing.assert_array_equal(
        steps(twin, query, prepared, twin.initial_state(prepared, training=True), 20)[0], weights
    )
    # A beam gathers seeds with the rest; more padding draws no other places.
    order = np.array([1, 0, 1])
    beam, state = keras.tree.map_structure(lambda leaf: ops.take(leaf, order, axis=0), (prepared, start))
    np.testing.assert_array_equal(steps(layer, query[order], beam, state, 20)[0], weights[:, order])
    longer = layer.prepare(
        *(np.pad(one, ((0, 0), (0, 3), (0, 0))) for one in (value, key)), np.pad(VALUE_MASK, ((0, 0), (0, 3)))
    )
    np.testing.assert_array_equal(steps(layer, query, longer, start, 20)[0][..., :5], weights)


def test_steps_with_a_seed_come_as_often_as_softmax_says():
    rows, rng = 4000, np.random.default_rng(0)
    score = rng.normal(size=4).astype("float32")
    layer = HardAttention("dot", seed=1)
    layer.build([(None, None, 1), (None, None, 1)])
    prepared = layer.prepare(np.tile(score[None, :, None], (rows, 1, 1)))
    weights, _ = steps(layer, np.ones((rows, 1), "float32"), prepared, layer.initial_state(prepared, training=True), 2)
    share = reference.masked_softmax(score[None].astype("float64"))[0]
    np.testing.assert_allclose(weights.mean((0, 1)), share, atol=4 * np.sqrt(0.25 / (2 * rows)))
    # Steps are independent: both places as often as the product says.
    together = np.einsum("bi,bj->ij", weights[0], weights[1]) / rows
    np.testing.assert_allclose(together, np.outer(share, share), atol=4 * np.sqrt(0.25 / rows))


def test_a_loop_in_the_graph_draws_what_a_loop_in_python_draws():
    layer, (query, value, key) = built(), draw(1)
    query, prepared = ops.convert_to_tensor(query[:, 0] * 0.1), layer.prepare(value, key, VALUE_MASK)
    start = layer.initial_state(prepared, training=True)
    expected, _ = steps(layer, query, prepared, start, 6)

    def body(t, state, drawn):
        _, weights, state = layer.attend(query, prepared, state, training=True)
        return t + 1, state, ops.slice_update(drawn, (t, 0, 0), ops.expand_dims(weights, 0))

    _, _, looped = ops.while_loop(lambda t, *_: t < 6, body, (0, start, ops.zeros((6, 2, 5))))
    np.testing.assert_array_equal(to_float64(looped), expected)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
def test_a_graph_draws_what_eager_draws(jit_compile):
    import tensorflow as tf

    layer, (query, value, key) = built(), draw(1)
    query, prepared = tf.constant(query[:, 0] * 0.1), layer.prepare(value, key, VALUE_MASK)
    start = layer.initial_state(prepared, training=True)
    compiled = tf.function(lambda *args: layer.attend(*args, training=True), jit_compile=jit_compile)
    weights, after = compiled(query, prepared, start)[1:]
    _, expected, expected_after = layer.attend(query, prepared, start, training=True)
    np.testing.assert_array_equal(to_float64(weights), to_float64(expected))
    np.testing.assert_array_equal(to_float64(after.step), to_float64(expected_after.step))


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
        ({"temperature": 0}, r"`temperature` must be a number > 0, or a schedule of such\. Received 0"),
        ({"temperature": True}, r"`temperature` must be a number > 0, or a schedule of such\. Received True"),
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

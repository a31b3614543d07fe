from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import HardAttention, MovingBaseline, reinforce_loss
from tests import reference
from tests.backends import gradients, to_float64


def test_the_loss_is_that_of_the_paper():
    likelihood, probability, entropy = np.array([-2.0, -1.0]), np.array([-0.5, -3.0]), np.array([0.7, 0.1])
    loss = to_float64(reinforce_loss(likelihood, probability, -1.5, entropy, reward_weight=2.0, entropy_weight=0.3))
    expected = -(likelihood + 2.0 * (likelihood + 1.5) * probability + 0.3 * entropy)
    np.testing.assert_allclose(loss, expected, atol=1e-6)


def test_the_reward_passes_no_gradient():
    likelihood, probability = np.array([-2.0, -1.0], "float32"), np.array([-0.5, -3.0], "float32")
    (of_likelihood, of_probability), _ = gradients(
        lambda one, two: ops.sum(reinforce_loss(one, two, -1.5)), [likelihood, probability]
    )
    np.testing.assert_allclose(of_likelihood, [-1, -1])
    np.testing.assert_allclose(of_probability, -(likelihood + 1.5))


@pytest.mark.parametrize("baseline", [0.0, 1.0])
def test_its_mean_gradient_is_that_of_the_expected_reward(baseline):
    """Many draws of one place; the reward of a place is its value. `d Σ_s p_s r_s / d e_s = p_s (r_s − Σ p r)`."""
    draws, rng = 6000, np.random.default_rng(0)
    key, value = rng.normal(size=(1, 4, 4)).astype("float32"), rng.normal(size=(1, 4, 1)).astype("float32")
    query = rng.normal(size=(1, 1, 4)).astype("float32")
    layer = HardAttention("dot", sample="categorical", seed=3)
    inputs = [np.repeat(query, draws, axis=1), value, key]
    context, weights = layer(inputs, return_attention_scores=True, training=True)

    def loss(key):
        log, _ = layer.log_probability([inputs[0], value, key], weights)
        return ops.mean(reinforce_loss(ops.stop_gradient(context)[0, :, 0], log[0], baseline))

    (of_key,), _ = gradients(loss, [key])
    matrix = reference.score_matrix(reference.dot, query, key, {})
    share, reward = reference.masked_softmax(matrix)[0, 0], value[0, :, 0]
    of_score = share * (reward - share @ reward)
    np.testing.assert_allclose(of_key[0], -of_score[:, None] * query[0, 0], atol=0.06)
    assert np.abs(of_score[:, None] * query[0, 0]).max() > 0.2


def test_the_baseline_moves_in_training_only():
    baseline, average = MovingBaseline(), 0.0
    for rewards in ([-4.0, -2.0], [-1.0, -1.0], [0.5, -3.5]):
        got = baseline(np.array(rewards, "float32"), training=True)
        assert to_float64(got) == pytest.approx(average, abs=1e-6)
        average = 0.9 * average + 0.1 * np.mean(rewards)
        for _ in range(2):
            assert to_float64(baseline(np.array(rewards, "float32"))) == pytest.approx(average, abs=1e-6)


def test_the_baseline_is_no_trained_weight_and_passes_no_gradient():
    baseline = MovingBaseline(0.5)
    assert baseline.trainable_weights == [] and [w.name for w in baseline.weights] == ["average"]
    rewards = np.array([-4.0, -2.0], "float32")
    (gradient,), _ = gradients(lambda one: ops.sum(baseline(one) * one), [rewards])
    np.testing.assert_array_equal(gradient, [0, 0])


def test_config_makes_an_equal_one():
    twin = MovingBaseline.from_config(MovingBaseline(0.7, name="mean_reward").get_config())
    assert (twin.momentum, twin.name) == (0.7, "mean_reward")
    assert MovingBaseline()(keras.Input((), batch_size=3)).shape == ()


@pytest.mark.parametrize("momentum", [1.0, -0.1])
def test_momentum_outside_its_range_is_refused(momentum):
    with pytest.raises(ValueError, match=rf"`momentum` must be a share in \[0, 1\)\. Received {momentum}"):
        MovingBaseline(momentum)


def test_the_example_of_the_docstring_runs():
    baseline = MovingBaseline(momentum=0.5)
    rewards = keras.ops.array([-4.0, -2.0])
    assert (float(baseline(rewards, training=True)), float(baseline(rewards))) == (0.0, -1.5)

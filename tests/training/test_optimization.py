from __future__ import annotations

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.training import optimization
from keras_attention.training.recipe import OptimizerConfig
from keras_attention.training.step import TrainStep

CPU = tf.distribute.get_strategy()


class Quadratic(keras.Model):
    """loss_sum = Σ (w·x + b − y)², one token an example."""

    def __init__(self):
        super().__init__(name="quadratic")
        self.weight = self.add_weight(shape=(3, 1), name="weight", initializer="ones")
        self.bias = self.add_weight(shape=(1,), name="bias", initializer="ones")
        self.built = True

    def loss_terms(self, batch, training):
        found = tf.matmul(batch["x"], self.weight.value) + self.bias.value
        return tf.reduce_sum((found - batch["y"]) ** 2), tf.cast(tf.shape(batch["x"])[0], tf.float32)


def data(rows: int = 5, seed: int = 0):
    generator = np.random.default_rng(seed)
    return {"x": generator.normal(size=(rows, 3)).astype("f"), "y": generator.normal(size=(rows, 1)).astype("f")}


def batch_of(values):
    return {name: tf.constant(value) for name, value in values.items()}


def step_of(model, config, float16=False):
    optimizer = optimization.make_optimizer(config, model.trainable_variables)
    average = optimization.WeightAverage(model.trainable_variables, config.ema_decay > 0)
    return TrainStep(model, optimizer, average, optimization.LossScale(float16), config, CPU)


def reference_gradients(weight, bias, values):
    """Of the mean, in float64."""
    x, y = values["x"].astype(float), values["y"].astype(float)
    error = x @ weight + bias - y
    return 2 * x.T @ error / len(x), 2 * error.sum(0) / len(x)


@pytest.mark.parametrize(
    ("settings", "step", "share", "expected"),
    [
        ({}, 0, 0.3, 1.0),
        ({"warmup_steps": 10}, 0, 0.0, 0.1),
        ({"warmup_steps": 10}, 4, 0.0, 0.5),
        ({"warmup_steps": 10}, 30, 0.0, 1.0),
        ({"decay": "linear"}, 5, 0.25, 0.75),
        ({"decay": "linear", "final_factor": 0.2}, 5, 1.0, 0.2),
        ({"decay": "cosine"}, 5, 0.5, 0.5),
        ({"decay": "cosine", "final_factor": 0.1}, 5, 0.25, 0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2),
        ({"decay": "cosine"}, 5, 1.7, 0.0),
        ({"decay": "cosine", "warmup_steps": 8}, 3, 0.5, 0.25),
        ({"decay": "inverse_sqrt", "warmup_steps": 4}, 3, 0.0, 1.0),
        ({"decay": "inverse_sqrt", "warmup_steps": 4}, 15, 0.0, 0.5),
        ({"decay": "inverse_sqrt"}, 3, 0.0, 0.5),
    ],
)
def test_learning_rate_follows_its_formula(settings, step, share, expected):
    config = OptimizerConfig(learning_rate=3.0, **settings)
    assert optimization.learning_rate(config, step, share) == pytest.approx(3.0 * expected)


def test_average_decay_starts_short():
    config = OptimizerConfig(ema_decay=0.99)
    found = [optimization.average_decay(config, step) for step in (0, 8, 10_000)]
    assert found == pytest.approx([0.1, 0.5, 0.99])


def test_adam_with_clipping_equals_the_paper():
    """Kingma and Ba, 2015 (arXiv 1412.6980), algorithm 1, in float64; Keras adds epsilon as in its section 2."""
    config = OptimizerConfig(learning_rate=0.1, clip_norm=0.5, beta_1=0.8, beta_2=0.9, epsilon=1e-3)
    model, values = Quadratic(), data()
    step = step_of(model, config)
    found = [np.ones((3, 1)), np.ones(1)]
    first, second = [0.0, 0.0], [0.0, 0.0]
    for t in range(1, 5):
        norm = float(step([batch_of(values)], 0.0, 0.0)["norm"])
        gradients = reference_gradients(*found, values)
        expected_norm = math.sqrt(sum((gradient**2).sum() for gradient in gradients))
        assert norm == pytest.approx(expected_norm, rel=1e-4)
        for index, gradient in enumerate(gradients):
            gradient = gradient * min(1, 0.5 / expected_norm)
            first[index] = 0.8 * first[index] + 0.2 * gradient
            second[index] = 0.9 * second[index] + 0.1 * gradient**2
            rate = 0.1 * math.sqrt(1 - 0.9**t) / (1 - 0.8**t)
            found[index] = found[index] - rate * first[index] / (np.sqrt(second[index]) + 1e-3)
    np.testing.assert_allclose(model.weight.numpy(), found[0], rtol=1e-4)
    np.testing.assert_allclose(model.bias.numpy(), found[1], rtol=1e-4)


def test_weight_decay_is_decoupled_and_spares_biases():
    config = OptimizerConfig(name="adamw", learning_rate=0.1, weight_decay=0.5)
    plain, decayed = Quadratic(), Quadratic()
    step_of(plain, OptimizerConfig(learning_rate=0.1))([batch_of(data())], 0.0, 0.0)
    step_of(decayed, config)([batch_of(data())], 0.0, 0.0)
    np.testing.assert_allclose(decayed.weight.numpy(), plain.weight.numpy() - 0.1 * 0.5 * 1.0, rtol=1e-6)
    np.testing.assert_array_equal(decayed.bias.numpy(), plain.bias.numpy())


def test_accumulated_batches_of_unequal_size_equal_one_batch():
    config = OptimizerConfig(name="sgd", learning_rate=0.1, beta_1=0.0)
    whole, parts, values = Quadratic(), Quadratic(), data(7)
    figures = step_of(whole, config)([batch_of(values)], 0.0, 0.0)
    halves = [{name: value[rows] for name, value in values.items()} for rows in (slice(0, 2), slice(2, 7))]
    summed = step_of(parts, config)([batch_of(half) for half in halves], 0.0, 0.0)
    assert float(summed["tokens"]) == 7.0
    np.testing.assert_allclose(summed["loss"], figures["loss"], rtol=1e-6)
    np.testing.assert_allclose(parts.weight.numpy(), whole.weight.numpy(), rtol=1e-6)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_an_update_that_is_not_finite_changes_nothing(poison):
    model = Quadratic()
    step = step_of(model, OptimizerConfig(name="adamw", weight_decay=0.1, ema_decay=0.9, clip_norm=1.0))
    step([batch_of(data())], 0.5, 0.0)
    variables = [*model.variables, *step.optimizer.variables, *step.average.averages]
    before = [np.array(variable.numpy()) for variable in variables]
    values = data()
    values["x"][0, 0] = poison
    assert not bool(step([batch_of(values)], 0.5, 0.0)["good"])
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_the_average_follows_its_formula_and_swaps_back_after_an_error():
    model = Quadratic()
    step = step_of(model, OptimizerConfig(learning_rate=0.3, ema_decay=0.9))
    expected = model.weight.numpy().astype(float)
    for decay in (0.1, 0.4, 0.9):
        step([batch_of(data())], decay, 0.0)
        expected = decay * expected + (1 - decay) * model.weight.numpy()
    own = model.weight.numpy().copy()
    with pytest.raises(RuntimeError, match="inside"), step.average.swapped():
        np.testing.assert_allclose(model.weight.numpy(), expected, rtol=1e-5)
        raise RuntimeError("inside")
    np.testing.assert_array_equal(model.weight.numpy(), own)
    assert not np.allclose(own, expected)


def test_repeated_rows_of_a_sparse_gradient_are_summed():
    variable = keras.Variable(np.zeros((4, 2), "f"))
    slices = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([2, 0, 2]))
    expected = [[3, 4], [0, 0], [6, 8], [0, 0]]
    np.testing.assert_array_equal(optimization.dense_gradient(slices, variable), expected)


def test_clipping_scales_all_gradients_to_the_limit_and_leaves_small_ones():
    gradients = [tf.constant([3.0]), tf.constant([[4.0]])]
    clipped, norm = optimization.clip_by_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose([clipped[0][0], clipped[1][0, 0]], [0.6, 0.8], rtol=1e-6)
    untouched, _ = optimization.clip_by_norm(gradients, 50.0)
    np.testing.assert_allclose([untouched[0][0], untouched[1][0, 0]], [3.0, 4.0], rtol=1e-6)


def test_the_loss_scale_cancels_out_shrinks_after_an_overflow_and_grows_after_good_steps():
    plain, scaled = Quadratic(), Quadratic()
    config = OptimizerConfig(name="sgd", learning_rate=0.1)
    step_of(plain, config)([batch_of(data())], 0.0, 0.0)
    step = step_of(scaled, config, float16=True)
    step.loss_scale.growth_steps = 2
    step([batch_of(data())], 0.0, 0.0)
    np.testing.assert_allclose(scaled.weight.numpy(), plain.weight.numpy(), rtol=1e-6)
    values = data()
    values["y"][0] = np.inf
    step([batch_of(values)], 0.0, 0.0)
    assert step.loss_scale.scale.numpy() == 8.0 and step.loss_scale.good_steps.numpy() == 0
    for _ in range(2):
        step([batch_of(data())], 0.0, 0.0)
    assert step.loss_scale.scale.numpy() == 16.0


def test_a_model_whose_loss_ignores_its_weights_is_refused():
    class Blind(Quadratic):
        def loss_terms(self, batch, training):
            return tf.reduce_sum(batch["x"]), tf.constant(1.0)

    with pytest.raises(ValueError, match="No trainable variable of the model receives a gradient"):
        step_of(Blind(), OptimizerConfig())([batch_of(data())], 0.0, 0.0)

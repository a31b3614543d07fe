"""Optimisation: learning-rate schedule, optimizer, clipping, loss scale and the average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import keras
import tensorflow as tf

from keras_attention.training.checkpoints import as_array
from keras_attention.training.recipe import OptimizerConfig


def learning_rate(config: OptimizerConfig, step: int, progress: float) -> float:
    """The learning rate of one step.

    A linear warm-up, times the decay: with p the progress, 1 ("constant"), 1 − (1 − f)·p ("linear"),
    f + (1 − f)·(1 + cos πp)/2 ("cosine"); "inverse_sqrt" is √(w / t) from the end w of the warm-up on.

    Args:
        config: `OptimizerConfig`.
        step: int >= 0. Updates made so far.
        progress: float. Share of the budget used; kept within [0, 1].

    Returns:
        float > 0, or 0 at the very end where `final_factor` is 0.
    """
    now = step + 1
    share = min(max(progress, 0.0), 1.0)
    warmup = min(1.0, now / config.warmup_steps) if config.warmup_steps else 1.0
    kept = 1 - config.final_factor
    decay = {
        "constant": 1.0,
        "linear": 1 - kept * share,
        "cosine": config.final_factor + kept * (1 + math.cos(math.pi * share)) / 2,
        "inverse_sqrt": math.sqrt(max(config.warmup_steps, 1) / max(now, config.warmup_steps, 1)),
    }[config.decay]
    return config.learning_rate * warmup * decay


def average_decay(config: OptimizerConfig, step: int) -> float:
    """Decay of the weight average at a step: short at first, so that the random start is soon forgotten."""
    return min(config.ema_decay, (1 + step) / (10 + step))


def make_optimizer(config: OptimizerConfig, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """The Keras optimizer of a configuration, built for the variables.

    Weight decay, clipping and averaging happen outside it, in `apply_gradients` and the step.
    """
    common = {"learning_rate": config.learning_rate, "name": config.name}  # named: a checkpoint knows it by its name
    if config.name == "sgd":
        optimizer = keras.optimizers.SGD(momentum=config.beta_1, **common)
    else:
        optimizer = keras.optimizers.Adam(beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon, **common)
    optimizer.build(variables)
    return optimizer


def apply_gradients(
    optimizer: keras.optimizers.Optimizer,
    weight_decay: float,
    gradients: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
    strategy: tf.distribute.Strategy,
) -> None:
    """Applies gradients that are reduced over the replicas already; called between replicas, inside the graph.

    `Optimizer.apply` would reduce them again, after which no clip could see their norm, and cannot stand in a branch.
    Weight decay is decoupled (Loshchilov and Hutter, 2019): `w -= rate · decay · w`; it leaves out variables of fewer
    than two axes, biases and scales.
    """
    rate = tf.convert_to_tensor(optimizer.learning_rate)
    for variable, gradient in zip(variables, gradients, strict=True):
        decay = weight_decay if len(variable.shape) > 1 else 0.0

        def update(value, gradient, rate, decay=decay, constraint=variable.constraint):
            if decay:
                value.assign_sub(value * tf.cast(rate * decay, value.dtype))
            optimizer.update_step(gradient, value, rate)
            if constraint is not None:
                value.assign(constraint(value))

        strategy.extended.update(variable.value, update, args=(gradient, rate), group=False)
    optimizer.iterations.assign_add(1)


def dense_gradient(gradient: tf.Tensor | tf.IndexedSlices, variable: keras.Variable) -> tf.Tensor:
    """A gradient as a tensor; rows of an embedding that were met several times are summed."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
    return gradient


def clip_by_norm(gradients: Sequence[tf.Tensor], limit: float) -> tuple[list[tf.Tensor], tf.Tensor]:
    """(gradients scaled so that their global norm is at most `limit`, the norm before); a limit of 0 scales nothing."""
    norm = tf.linalg.global_norm(gradients)
    if not limit:
        return list(gradients), norm
    factor = limit / tf.maximum(norm, limit)
    return [gradient * factor for gradient in gradients], norm


class LossScale:
    """Scale of the loss under float16: halved when a gradient overflows, doubled after a run of good steps.

    The loss is a sum over tokens, whose gradient by the logits is at most 1 a token: the scale can start low.

    Args:
        active: bool. False keeps it at 1.
        growth_steps: int. Good steps before it doubles.
    """

    def __init__(self, active: bool, growth_steps: int = 1000):
        self.active = active
        self.growth_steps = growth_steps
        self.scale = tf.Variable(16.0 if active else 1.0, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int32, name="good_steps")
        self.variables = [self.scale, self.good_steps] if active else []

    def grow(self) -> None:
        """After a good step."""
        if self.active:
            full = self.good_steps + 1 >= self.growth_steps
            self.scale.assign(tf.where(full, self.scale * 2, self.scale))
            self.good_steps.assign(tf.where(full, 0, self.good_steps + 1))

    def shrink(self) -> None:
        """After an overflow."""
        if self.active:
            self.scale.assign(tf.maximum(self.scale / 2, 2.0**-14))
            self.good_steps.assign(0)


class WeightAverage:
    """Exponential moving average of the trainable weights.

    Args:
        variables: the weights.
        active: bool. False keeps no copy, and `swapped` changes nothing.
    """

    def __init__(self, variables: Sequence[keras.Variable], active: bool):
        self.weights = list(variables)
        self.active = active
        self.averages = [
            tf.Variable(as_array(weight), trainable=False, name=f"average_{index}")
            for index, weight in enumerate(self.weights if active else [])
        ]

    def named(self) -> dict[str, tf.Variable]:
        """The averages by the paths of their weights."""
        return {
            f"average/{index:04d}/{weight.path}": average
            for index, (weight, average) in enumerate(zip(self.weights, self.averages, strict=False))
        }

    def update(self, strategy: tf.distribute.Strategy, decay: tf.Tensor) -> None:
        """One step of the average; called between replicas, inside the graph."""
        if self.active:
            for weight, average in zip(self.weights, self.averages, strict=True):
                strategy.extended.update(average, _towards, args=(weight.value, 1 - decay), group=False)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The model holds the averages inside the block, and its own weights again after it, whatever happens."""
        if not self.active:
            yield
            return
        own = [as_array(weight) for weight in self.weights]
        try:
            for weight, average in zip(self.weights, self.averages, strict=True):
                weight.assign(as_array(average))
            yield
        finally:
            for weight, value in zip(self.weights, own, strict=True):
                weight.assign(value)


def _towards(average: tf.Variable, weight: tf.Tensor, share: tf.Tensor) -> None:
    average.assign_add((tf.convert_to_tensor(weight) - average) * tf.cast(share, average.dtype))

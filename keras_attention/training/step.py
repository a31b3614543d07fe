"""One update, and the loss of one validation batch: the same graph for one device, several, or several workers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_attention.training.optimization import (
    LossScale,
    WeightAverage,
    apply_gradients,
    clip_by_norm,
    dense_gradient,
)
from keras_attention.training.recipe import OptimizerConfig

logger = logging.getLogger(__name__)

Batch = dict[str, tf.Tensor]


class BatchSplitter:
    """Splits the examples of a global batch over the replicas.

    A replica for which no example is left computes the first one at weight 0: layers need not know empty batches.

    Args:
        strategy: `tf.distribute.Strategy`.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.replicas: list[int] = []
        self.total = strategy.num_replicas_in_sync

        def note(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            self.replicas.append(context.replica_id_in_sync_group)
            return tf.constant(0)

        strategy.experimental_distribute_values_from_function(note)

    def __call__(self, batches: Sequence[Batch]) -> tuple:
        """For each replica of this process: (its share of each batch, the weights of these)."""
        return tuple(self._share(batches, replica) for replica in self.replicas)

    def _share(self, batches: Sequence[Batch], replica: int) -> tuple:
        if self.total == 1:
            return tuple(batches), tuple(tf.constant(1.0) for _ in batches)
        shares, weights = [], []
        for batch in batches:
            empty = replica >= len(next(iter(batch.values())))
            shares.append(
                {name: (values[:1] if empty else values[replica :: self.total]) for name, values in batch.items()}
            )
            weights.append(tf.constant(0.0 if empty else 1.0))
        return tuple(shares), tuple(weights)

    def distribute(self, shares: tuple) -> Any:
        """The shares as values for `strategy.run`; inside the graph."""
        iterator = iter(shares)
        return self.strategy.experimental_distribute_values_from_function(lambda context: next(iterator))


def batch_spec(batch: Batch) -> dict[str, tf.TensorSpec]:
    """The shape of all batches: sizes are open, but for the last axis of numbers and of whatever has four axes."""

    def spec(values: tf.Tensor) -> tf.TensorSpec:
        shape = [None] * len(values.shape)
        if (values.dtype.is_floating and len(shape) > 2) or len(shape) > 3:
            shape[-1] = values.shape[-1]
        return tf.TensorSpec(shape, values.dtype)

    return {name: spec(values) for name, values in batch.items()}


class TrainStep:
    """One update from one or more global batches.

    The gradient is that of the summed loss over the tokens of all batches and replicas, so that neither the number of
    devices nor the split changes it. It is reduced over the replicas first, then clipped, then applied; a loss or a
    norm that is not finite leaves everything as it was.

    Args:
        model: a `TaskModel`.
        optimizer: built `keras.optimizers.Optimizer`.
        average: `WeightAverage`.
        loss_scale: `LossScale`.
        config: `OptimizerConfig`; its clip and its weight decay are applied here.
        strategy: `tf.distribute.Strategy` under which all of these were made.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        average: WeightAverage,
        loss_scale: LossScale,
        config: OptimizerConfig,
        strategy: tf.distribute.Strategy,
    ):
        self.model, self.optimizer, self.average, self.loss_scale = model, optimizer, average, loss_scale
        self.config, self.strategy = config, strategy
        self.split = BatchSplitter(strategy)
        self._functions: dict[int, Any] = {}

    def __call__(self, batches: Sequence[Batch], average_decay: float, clock: float) -> dict[str, tf.Tensor]:
        """Makes the update.

        Returns:
            dict of scalars: `loss` (a token), `tokens`, `norm` (before clipping), `good` (bool: the update was made),
            and `clock`, the mean over all replicas, which is how workers agree on the time.
        """
        if len(batches) not in self._functions:
            spec = batch_spec(batches[0])
            share = (tuple(spec for _ in batches), tuple(tf.TensorSpec([]) for _ in batches))
            signature = [tuple(share for _ in self.split.replicas), tf.TensorSpec([]), tf.TensorSpec([])]
            self._functions[len(batches)] = tf.function(self._update, input_signature=signature)
        return self._functions[len(batches)](self.split(batches), tf.constant(average_decay), tf.constant(clock))

    def _update(self, shares: tuple, average_decay: tf.Tensor, clock: tf.Tensor) -> dict[str, tf.Tensor]:
        with self.strategy.scope():
            values = self.split.distribute(shares)
            gradients, figures = self.strategy.run(self._gradients, args=(values, clock))
            return self._apply_if_good(gradients, figures, average_decay)

    def _apply_if_good(self, gradients: list, figures: dict, average_decay: tf.Tensor) -> dict[str, tf.Tensor]:
        results = {name: self.strategy.experimental_local_results(value)[0] for name, value in figures.items()}

        def apply() -> tf.Tensor:
            variables = self.model.trainable_variables
            apply_gradients(self.optimizer, self.config.weight_decay, gradients, variables, self.strategy)
            self.average.update(self.strategy, average_decay)
            self.loss_scale.grow()
            return tf.constant(True)

        def skip() -> tf.Tensor:
            self.loss_scale.shrink()
            return tf.constant(False)

        tf.cond(results["good"], apply, skip)
        return results

    def _gradients(self, share: tuple, clock: tf.Tensor) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """In one replica: the clipped gradients of all replicas, and the figures of the step."""
        variables = self.model.trainable_variables
        sums, loss, tokens = None, tf.constant(0.0), tf.constant(0.0)
        scale = tf.convert_to_tensor(self.loss_scale.scale)
        for batch, weight in zip(*share, strict=True):
            with tf.control_dependencies(sums or []), tf.GradientTape() as tape:  # one batch in memory at a time
                batch_loss, batch_tokens = self.model.loss_terms(batch, training=True)
                scaled = tf.cast(batch_loss, tf.float32) * weight * scale
            gradients = self._dense(tape.gradient(scaled, variables), variables)
            sums = gradients if sums is None else [total + new for total, new in zip(sums, gradients, strict=True)]
            loss, tokens = loss + scaled / scale, tokens + tf.cast(batch_tokens, tf.float32) * weight
        context = tf.distribute.get_replica_context()
        loss, tokens, clock = tf.unstack(
            context.all_reduce(tf.distribute.ReduceOp.SUM, tf.stack([loss, tokens, clock]))
        )
        divisor = tf.maximum(tokens, 1.0)
        reduced = [gradient / (divisor * scale) for gradient in context.all_reduce(tf.distribute.ReduceOp.SUM, sums)]
        clipped, norm = clip_by_norm(reduced, self.config.clip_norm)
        good = tf.math.is_finite(loss) & tf.math.is_finite(norm)
        figures = {"loss": loss / divisor, "tokens": tokens, "norm": norm, "good": good}
        return clipped, {**figures, "clock": clock / self.split.total}

    def _dense(self, gradients: list, variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
        unreached = [variable.path for variable, gradient in zip(variables, gradients, strict=True) if gradient is None]
        if len(unreached) == len(gradients):
            raise ValueError(
                "No trainable variable of the model receives a gradient. Expected `loss_terms` to depend on them; "
                "compute the loss from the model's own layers."
            )
        if unreached:
            logger.warning("No gradient reaches %s.", ", ".join(unreached))
        return [
            tf.zeros_like(variable.value) if gradient is None else dense_gradient(gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]


class LossStep:
    """The summed loss and the number of tokens of one global batch, without training.

    Args:
        model: a `TaskModel`.
        strategy: `tf.distribute.Strategy`.
    """

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy):
        self.model, self.strategy = model, strategy
        self.split = BatchSplitter(strategy)
        self._function: Any = None

    def __call__(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        if self._function is None:
            share = ((batch_spec(batch),), (tf.TensorSpec([]),))
            self._function = tf.function(self._total, input_signature=[tuple(share for _ in self.split.replicas)])
        return self._function(self.split([batch]))

    def _total(self, shares: tuple) -> tuple[tf.Tensor, tf.Tensor]:
        sums = self.strategy.run(self._terms, args=(self.split.distribute(shares),))
        return tuple(self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None) for value in sums)

    def _terms(self, share: tuple) -> tuple[tf.Tensor, tf.Tensor]:
        (batch,), (weight,) = share
        loss, tokens = self.model.loss_terms(batch, training=False)
        return tf.cast(loss, tf.float32) * weight, tf.cast(tokens, tf.float32) * weight

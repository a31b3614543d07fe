"""Devices and workers: whether a model fits a strategy, who writes, and what a training ran on."""

from __future__ import annotations

import logging
import platform
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from keras_attention.training.recipe import Recipe
from keras_attention.training.run_state import usable_cores

logger = logging.getLogger(__name__)


def check_model(model: keras.Model, recipe: Recipe, strategy: tf.distribute.Strategy) -> None:
    """Refuses a model without weights or from outside the strategy; warns where it computes in another precision."""
    if not model.trainable_variables:
        raise ValueError(
            f"The model {model.name!r} has no trainable weights yet. Expected a built model; call it once, or build it "
            "in its constructor."
        )
    outside = [
        variable.path for variable in model.variables if not strategy.extended.variable_created_in_scope(variable.value)
    ]
    if outside:
        raise ValueError(
            f"{len(outside)} variables, {outside[0]!r} for one, were made outside the strategy. Expected the model "
            "to be made inside `with strategy.scope():`; build it there."
        )
    policy = model.dtype_policy.name
    if policy != recipe.training.precision:
        logger.warning(
            "The model computes in %s, the recipe says %s: build it under that policy.",
            policy,
            recipe.training.precision,
        )


def role(strategy: tf.distribute.Strategy) -> tuple[bool, int]:
    """(whether this process writes the run folder, number of workers)."""
    resolver = strategy.cluster_resolver
    workers = 0 if resolver is None else len(resolver.cluster_spec().as_dict().get("worker", []))
    if workers < 2:
        return True, 1
    return resolver.task_type == "chief" or (resolver.task_type == "worker" and resolver.task_id == 0), workers


def meet(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have come here: what one of them has written, the others may read."""

    @tf.function
    def count() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    count().numpy()


def machine() -> dict[str, Any]:
    """What a training ran on, without naming the machine."""
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "cores": usable_cores(),
        "gpus": gpus,
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("tensorflow", "keras", "numpy")},
    }

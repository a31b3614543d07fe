"""Trains the fake model under a strategy and prints what came of it as JSON; run as a program by test_strategies."""

from __future__ import annotations

import json
import sys

import tensorflow as tf

from keras_attention.training.callbacks import Callback
from keras_attention.training.trainer import Trainer
from tests.training.fake_model import FakeModel, recipe, sentences


class Log(Callback):
    def __init__(self):
        self.losses, self.norms, self.validation = [], [], []

    def on_report(self, report):
        self.losses.append(report.loss)
        self.norms.append(report.gradient_norm)

    def on_validation(self, validation):
        self.validation.append(validation.scores["loss"])


def make_strategy(kind: str) -> tf.distribute.Strategy:
    if kind == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if kind == "mirrored" else tf.distribute.get_strategy()


def refuse_a_model_from_outside(strategy: tf.distribute.Strategy) -> None:
    try:
        Trainer(FakeModel(), recipe(), "never", strategy, callbacks=[])
    except ValueError as error:
        if "were made outside the strategy. Expected the model to be made inside" not in str(error):
            raise
    else:
        raise AssertionError("a model from outside the strategy was taken")


def main(folder: str, kind: str, *settings: str) -> None:
    strategy, log = make_strategy(kind), Log()
    if kind == "mirrored":
        refuse_a_model_from_outside(strategy)
    with strategy.scope():
        model = FakeModel(dropout=0.0)
    asked = recipe("training.batch_size=5", "optimizer.clip_norm=0.2", *settings)
    trainer = Trainer(model, asked, folder, strategy, callbacks=[log])
    # 41 sentences in batches of 5: parts of 3 and 2, and the last batch of an epoch has one sentence for two replicas.
    trainer.fit(sentences(41), sentences(11, seed=1))
    kernel = model.output_layer.kernel.numpy().ravel().tolist()
    print(json.dumps({**vars(log), "kernel": kernel, "writes": trainer.chief}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Trains the fake model into a folder, slowly enough to be killed; run as a program by test_resume."""

from __future__ import annotations

import sys
import time

import tensorflow as tf

from keras_attention.training.callbacks import Callback
from keras_attention.training.trainer import Trainer
from tests.training.fake_model import FakeModel, recipe, sentences


class Slow(Callback):
    def on_report(self, report):
        time.sleep(0.03)


def main(folder: str, *settings: str) -> None:
    tf.config.experimental.enable_op_determinism()
    result = Trainer(FakeModel(), recipe(*settings), folder, callbacks=[Slow()]).fit(
        sentences(60), sentences(20, seed=1)
    )
    print(result.steps, result.best_step, result.best_metric, result.stopped_because)


if __name__ == "__main__":
    main(*sys.argv[1:])

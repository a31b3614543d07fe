"""Each way in which the score of a hard attention learns, on a task that needs one value and no other."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import ExponentialTemperature, HardAttention, MovingBaseline, reinforce_loss
from tests.backends import to_float64

SYMBOLS, PLACES, CLASSES = 6, 4, 4


def lookups(number, seed):
    """Which value stands under the key that was asked for? → query, value, key, classes.

    The keys of a row are other symbols each, the values classes of their own: the mean of the values says little.
    """
    rng = np.random.default_rng(seed)
    symbols = rng.permuted(np.tile(np.arange(SYMBOLS), (number, 1)), axis=1)[:, :PLACES]
    classes = rng.integers(0, CLASSES, (number, PLACES))
    rows, asked = np.arange(number), rng.integers(0, PLACES, number)
    key, value = np.eye(SYMBOLS, dtype="float32")[symbols], np.eye(CLASSES, dtype="float32")[classes]
    return [key[rows, asked][:, None], value, key], classes[rows, asked]


class Lookup(keras.Model):
    """Logits of the class, read from what a hard attention looks at."""

    def __init__(self, **options):
        super().__init__()
        self.attention = HardAttention("general", seed=1, **options)
        self.reading = keras.layers.Dense(CLASSES)

    def call(self, inputs, training=None):
        return self.reading(self.attention(inputs, training=training)[:, 0])


class ReinforcedLookup(Lookup):
    """The same, learning by REINFORCE from several samples."""

    def __init__(self, num_samples, **options):
        super().__init__(sample="categorical", **options)
        self.num_samples = num_samples
        self.baseline = MovingBaseline()

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        drawn = self.attention.draw(x, self.num_samples)
        logits = self.reading(drawn.context[:, :, 0])  # (B, M, C)
        each = ops.repeat(ops.expand_dims(y, 1), self.num_samples, axis=1)
        likelihood = -ops.sparse_categorical_crossentropy(each, logits, from_logits=True)
        baseline = self.baseline(likelihood, training=training)
        loss = reinforce_loss(likelihood, drawn.log_probability[:, :, 0], baseline, drawn.entropy, entropy_weight=0.01)
        return ops.mean(loss)


ESTIMATORS = {
    "straight-through": lambda: Lookup(sample="straight_through"),
    "Gumbel-softmax that cools": lambda: Lookup(
        sample="gumbel_softmax", temperature=ExponentialTemperature(2.0, 0.3, rate=0.03)
    ),
    "REINFORCE": lambda: ReinforcedLookup(1),
    "REINFORCE of 4 samples": lambda: ReinforcedLookup(4),
}


def accuracies(model):
    """Before and after 60 steps: of the model, looking at the best place, and of its reading of the mean value."""
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    unseen, expected = lookups(500, 1)
    before = (to_float64(model(unseen)).argmax(-1) == expected).mean()
    model.fit(*lookups(2000, 0), batch_size=200, epochs=6, verbose=0)
    after = (to_float64(model(unseen)).argmax(-1) == expected).mean()
    of_the_mean = (to_float64(model.reading(unseen[1].mean(1))).argmax(-1) == expected).mean()
    return before, after, of_the_mean


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_learns_to_look_at_the_one_place(make):
    before, after, of_the_mean = accuracies(make())
    assert before < 0.5 and after > 0.95
    assert of_the_mean < 0.65  # what was learnt is where to look: all places together do not tell


def test_without_its_score_learning_it_does_not():
    model = Lookup(sample="straight_through")
    model(lookups(2, 0)[0])
    model.attention.score.trainable = False
    assert accuracies(model)[1] < 0.65

"""A small `TaskModel` look-alike that learns to copy, with dropout, and files of sentences for it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from keras_attention.training.recipe import Recipe

UNKNOWN, END, FIRST = 1, 3, 4
LETTERS = "abcdefghijkl"


class FakeTokenizer:
    vocabulary_size = 16

    def encode(self, text: str) -> list[int]:
        return [FIRST + LETTERS.index(letter) if letter in LETTERS else UNKNOWN for letter in text.split()]

    def decode(self, ids) -> str:
        return " ".join(LETTERS[index - FIRST] for index in ids if index >= FIRST)


class FakePrediction:
    def __init__(self, output, attention):
        self.output, self.attention, self.score = output, attention, 0.0


class FakeMap:
    name = "copy"

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.weights = np.eye(len(rows), len(columns), dtype=np.float32)

    def plot(self, path):
        image = np.repeat(255 - 255 * self.weights[:, :, None], 3, axis=2).astype(np.uint8)
        Path(path).write_bytes(tf.io.encode_png(image).numpy())


class FakeModel(keras.Model):
    """target[t] is told from source[t] by an embedding, dropout and a dense layer."""

    family, task, verb, columns = "fake", "translation", "translate", ("source", "target")
    validation_options, counted = {}, "target tokens"

    def __init__(self, units: int = 8, dropout: float = 0.3, seed: int = 1, vocabulary_size: int = 16):
        super().__init__(name="fake")
        self.tokenizer = FakeTokenizer()
        self.config = SimpleNamespace(units=units)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, units, name="embedding", embeddings_initializer=keras.initializers.RandomUniform(seed=seed)
        )
        self.dropout = keras.layers.Dropout(dropout, name="dropout", seed=seed)
        self.output_layer = keras.layers.Dense(
            vocabulary_size, name="output", kernel_initializer=keras.initializers.GlorotUniform(seed=seed)
        )
        self(np.zeros((1, 1), np.int32))

    def call(self, source, training=False):
        return self.output_layer(self.dropout(self.embedding(source), training=training))

    def vectorize(self, example):
        if not example["source"]:
            raise ValueError("the source is ''. Expected text.")
        return {name: [*self.tokenizer.encode(example[name]), END] for name in self.columns}

    def loss_terms(self, batch, training):
        logits = tf.cast(self(batch["source"], training=training), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch["target"], logits=logits)
        kept = tf.cast(batch["target"] != 0, tf.float32)
        return tf.reduce_sum(losses * kept), tf.reduce_sum(kept)

    def run(self, inputs, **options):
        texts = [item if isinstance(item, str) else item["source"] for item in inputs]
        return [self._translate(text) for text in texts]

    def _translate(self, text):
        ids = np.asarray([self.tokenizer.encode(text)], np.int32)
        found = keras.ops.convert_to_numpy(self(ids)).argmax(-1)[0]
        return FakePrediction(self.tokenizer.decode(found), [FakeMap(text.split(), text.split())])

    def save_to_preset(self, folder, metadata=None):
        Path(folder).mkdir(parents=True)
        np.savez(Path(folder, "weights.npz"), *[keras.ops.convert_to_numpy(weight) for weight in self.weights])
        Path(folder, "metadata.json").write_text(json.dumps(metadata))


def sentences(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Copy pairs of 1 to 7 letters."""
    generator = np.random.default_rng(seed)
    texts = [" ".join(generator.choice(list(LETTERS), generator.integers(1, 8))) for _ in range(count)]
    return [{"source": text, "target": text} for text in texts]


def recipe(*settings: str) -> Recipe:
    values = {
        "version": 1,
        "family": "fake",
        "optimizer": {"learning_rate": 0.05, "clip_norm": 1.0, "ema_decay": 0.9},
        "training": {"seed": 3, "steps": 24, "batch_size": 8, "validate_every": 6, "checkpoint_every": 4,
                     "checkpoint_seconds": 0, "log_seconds": 0.001},
        "evaluation": {"samples": 2},
    }  # fmt: skip
    return Recipe.from_dict(values).override(settings)


def weights_of(model) -> dict[str, np.ndarray]:
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}

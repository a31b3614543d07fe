"""`LabelModel`: what the families share that give one label to what they read."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.prediction import Prediction
from keras_attention.models.search_options import check_range
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.word_model import WordModel

__all__ = ["LabelModel"]


class LabelModel(WordModel):
    """Base of the families that read words and give one label: embeddings, output layer, loss, predictions, serving.

    A family builds its layers in `build_network`, and gives `read` and `attention_maps`; one that reads more than
    running text also `words_of`.

    Call arguments:
        inputs: dict of the input columns, each int32 (B, T), padded with 0; others are left alone.

    Returns:
        logits (B, C), one for each of `config.labels`.
    """

    columns = ("text", "label")
    text_columns = ("text",)
    counted = "examples"

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        self.build_embedding()
        self.dropout = keras.layers.Dropout(self.config.dropout, dtype=self.dtype_policy, name="dropout")
        self.build_output(self.build_network())
        self.built = True
        object.__setattr__(self, "_look", None)  # past Keras, which would save the function with the model

    def build_output(self, width):
        """Makes what `label_logits` needs, for vectors of this width."""
        self.output_layer = keras.layers.Dense(len(self.config.labels), dtype=self.dtype_policy, name="output")
        self.output_layer.build((None, width))

    def build_network(self) -> int:
        """Makes the family's layers, built, and returns the width of the vector that `read` gives."""
        raise TypeError(f"{type(self).__name__} defines no `build_network`. Every LabelModel must.")

    def read(self, inputs, training=None):
        """inputs, a dict of ids (B, T) → a vector (B, D), and a dict of the weights that were used: name → (B, …)."""
        raise TypeError(f"{type(self).__name__} defines no `read`. Every LabelModel must.")

    def attention_maps(self, ids, weights) -> list:
        """The `AttentionMap`s of one example.

        Args:
            ids: dict of the input columns, each a list of int, without padding.
            weights: dict of what `read` gave for this row, NumPy, as it was padded.
        """
        raise TypeError(f"{type(self).__name__} defines no `attention_maps`. Every LabelModel must.")

    # Data

    @classmethod
    def learnt_settings(cls, examples, settings):
        """The labels, sorted, and their weights where these are "balanced"."""
        counts = collections.Counter(example[cls.columns[-1]] for example in examples)
        labels = list(settings.get("labels", sorted(counts)))
        learnt: dict[str, Any] = {"labels": labels}
        if settings.get("label_weights") == "balanced":
            mean = sum(counts.values()) / len(labels)
            learnt["label_weights"] = [mean / max(counts[label], 1) for label in labels]
        return learnt

    def vectorize(self, example):
        """The ids of each column that the example has; of the label its number, from 1.

        Raises:
            ValueError: a column is empty or longer than `config.max_length` words, or the label is unknown.
        """
        *inputs, label = self.columns
        found = {column: self.input_ids(column, example[column]) for column in inputs if column in example}
        if label in example:
            found[label] = [1 + self._place(example[label])]
        return found

    def _place(self, label: str) -> int:
        if label not in self.config.labels:
            raise ValueError(
                f"The label {label!r} is not one that the model has. Expected one of "
                f"{', '.join(self.config.labels)[:200]}."
            )
        return self.config.labels.index(label)

    def input_ids(self, column: str, value) -> list[int]:
        """The ids of a column, checked."""
        self.check_tokenizer()
        ids = self.words_of(column, value)
        self.check_length(column, len(ids), value)
        return ids

    def words_of(self, column: str, value) -> list[int]:
        """The ids of the words of a column, as long as they are."""
        return self.tokenizer.encode(value)

    # The network

    def label_logits(self, vector):
        """A vector (B, D) → logits (B, C)."""
        return self.output_layer(vector)

    def look(self, inputs, training=None):
        """Logits (B, C), and the weights that were used."""
        vector, weights = self.read(inputs, training)
        logits = tf.cast(self.label_logits(self.dropout(vector, training=training)), tf.float32)
        return logits / self.config.temperature, weights

    def call(self, inputs, training=None):
        return self.look(inputs, training)[0]

    def loss_terms(self, batch, training):
        """The sum of the loss over the examples, and their number: two float32 scalars. Penalties of layers count once
        an example.
        """
        loss, count = self.loss_from_logits(self(batch, training=training), batch[self.columns[-1]], training)
        if training and self.losses:
            loss += tf.cast(tf.add_n(self.losses), tf.float32) * count
        return loss, count

    def loss_from_logits(self, logits, label, training=False):
        """As `loss_terms`, from the logits (B, C) that `call` returned, and the labels (B, 1), from 1; 0 is none."""
        label = tf.reshape(label, [-1])
        losses = self.example_losses(logits, tf.maximum(label - 1, 0), training)
        weight = tf.cast(label > 0, tf.float32)
        if training and self.config.label_weights:
            losses *= tf.gather(tf.constant(self.config.label_weights, tf.float32), tf.maximum(label - 1, 0))
        return tf.reduce_sum(losses * weight), tf.reduce_sum(weight)

    def example_losses(self, logits, places, training):
        """logits (B, C) and the places (B,) of the labels → the loss of each example, float32 (B,)."""
        return smoothed_cross_entropy(logits, places, self.config.label_smoothing if training else 0.0)

    # Predictions

    def predict_examples(self, examples, n_best=1, attention=True, batch_tokens=8192):
        """Checked examples to predictions.

        Args:
            n_best: int > 0. How many labels; the further ones are `alternatives`.
            attention: bool. Whether to report what was looked at.
            batch_tokens: int > 0. How many words go through the network at once.
        """
        check_range("n_best", n_best, 1, 2**31 - 1)
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        rows = self._all_ids(examples)
        predictions: list = [None] * len(rows)
        for batch in budget_batches([sum(map(len, row.values())) for row in rows], batch_tokens):
            padded = {name: tf.constant(pad_rows([rows[place][name] for place in batch])) for name in rows[0]}
            logits, weights = self._look_function()(padded)
            probabilities = tf.nn.softmax(logits).numpy()
            weights = {name: value.numpy() for name, value in weights.items()} if attention else {}
            for place, row in enumerate(batch):
                own = {name: value[place] for name, value in weights.items()}
                maps = self.attention_maps(rows[row], own) if attention else []
                predictions[row] = self.prediction(probabilities[place], maps, n_best)
        return predictions

    def _all_ids(self, examples):
        inputs = self.columns[:-1]
        return self.rows_of(examples, lambda example: self.vectorize({name: example[name] for name in inputs}))

    def _look_function(self):
        if self._look is None:
            spec = {name: tf.TensorSpec([None, None], tf.int32) for name in self.columns[:-1]}
            object.__setattr__(self, "_look", tf.function(self.look, input_signature=[spec]))
        return self._look

    def prediction(self, probabilities, maps, n_best):
        """Probabilities (C,) as a `Prediction`."""
        labels = self.config.labels
        extra = {"probabilities": {name: float(one) for name, one in zip(labels, probabilities, strict=True)}}
        order = np.argsort(-probabilities, kind="stable")[:n_best]
        found = [Prediction(labels[one], float(probabilities[one]), maps, extra=extra) for one in order]
        return dataclasses.replace(found[0], alternatives=found[1:])

    # Export

    def serving_functions(self, batch_size=None):
        """`ids`: the input columns, each int32 (B, T) → `probabilities` (B, C), `label` int32 (B,), and the weights of
        each mechanism, `attention_<name>`. `text`: strings of the input columns in, and the name of the label out too.
        """
        inputs = self.columns[:-1]

        def found(padded):
            logits, weights = self.look(padded)
            probabilities = tf.nn.softmax(logits)
            label = tf.argmax(logits, axis=-1, output_type=tf.int32)
            maps = {f"attention_{name}": value for name, value in weights.items()}
            return {"probabilities": probabilities, "label": label, **maps}

        @tf.function(input_signature=[tf.TensorSpec([batch_size, None], tf.int32, name=name) for name in inputs])
        def ids(*columns):
            return found(dict(zip(inputs, columns, strict=True)))

        functions = {"ids": ids}
        if self.tokenizer is not None:
            names = tf.constant(self.config.labels)

            @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name=name) for name in inputs])
            def text(*columns):
                padded = {name: self.graph_ids(name, one) for name, one in zip(inputs, columns, strict=True)}
                outputs = found(padded)
                read = {f"{name}_ids": one for name, one in padded.items()}
                return {"text": tf.gather(names, outputs["label"]), **outputs, **read}

            functions["text"] = text
        return functions

    def graph_ids(self, column, strings):
        """`words_of` in the graph: string (B,) → int32 (B, T), T ≥ 1, padded with 0."""
        ids = self.tokenizer.graph_encode(strings).to_tensor(self.pad_id)
        return tf.pad(ids, [[0, 0], [0, tf.cast(tf.equal(tf.shape(ids)[1], 0), tf.int32)]])  # recurrent layers want one

    def random_ids(self, length, random):
        high = self.config.vocabulary_size
        return {name: random.integers(4, high, length).tolist() for name in self.columns[:-1]}

    def output_loss(self, inputs, outputs):
        padded = {name: tf.constant(value) for name, value in inputs.items()}
        chosen = tf.constant(outputs["label"])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=chosen, logits=self._look_function()(padded)[0])
        return float(tf.reduce_mean(losses))

    def sidecar(self):
        return {
            "special_ids": {"pad": self.pad_id},
            "max_length": self.config.max_length,
            "labels": list(self.config.labels),
        }

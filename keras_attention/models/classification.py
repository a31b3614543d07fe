"""The family `classification`: one label for a text, and what in the text speaks for it."""

from __future__ import annotations

import collections
import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import (
    AttentivePooling,
    MaxPooling,
    MeanPooling,
    OrthogonalityRegularizer,
    StructuredAttention,
)
from keras_attention.maps import AttentionMap
from keras_attention.models.classification_config import ClassificationConfig
from keras_attention.models.directional_encoder import DirectionalEncoder
from keras_attention.models.embeddings import fill_embedding, make_embedding
from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.multi_dim_pooling import MultiDimPooling
from keras_attention.models.prediction import Prediction
from keras_attention.models.recurrent_encoder import RecurrentEncoder
from keras_attention.models.search_options import check_range
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.task_model import TaskModel
from keras_attention.text import WordTokenizer

__all__ = ["ClassificationConfig", "ClassificationModel"]


@keras.saving.register_keras_serializable("keras_attention")
class ClassificationModel(TaskModel):
    """A text classifier: words, an encoder over them, a pooling that reads the states into one vector, and the labels.

    Lin et al., 2017 (arXiv 1703.03130), with `encoder` "lstm" and `pooling` "structured"; Shen et al., 2018 (arXiv
    1709.04696), with "directional" and "multi_dim".
    Differs from the papers: the layers behind the pooled matrix are not pruned; dropout and label smoothing.

    Args:
        config: `ClassificationConfig` or the dict of one.
        tokenizer: `WordTokenizer` or `SentencePieceTokenizer`; only needed by what reads text.

    Call arguments:
        inputs: dict of `text` int32 (B, T), padded with 0.

    Returns:
        logits float32 (B, K), one for each of the config's labels.
    """

    family = "classification"
    task = "classification"
    verb = "classify"
    columns = ("text", "label")
    text_columns = ("text",)
    counted = "examples"
    config_class = ClassificationConfig
    pad_id = 0

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.text_embedding = make_embedding(
            config.embeddings, config.vocabulary_size, config.embedding_dim, policy, "text_embedding"
        )
        self.embedding_dropout = keras.layers.Dropout(config.embedding_dropout, dtype=policy, name="embedding_dropout")
        self.dropout = keras.layers.Dropout(config.dropout, dtype=policy, name="output_dropout")
        self.encoder = self._new_encoder()
        self.pooling = self._new_pooling()
        width = config.state_units * (config.rows if config.pooling == "structured" else 1)
        self.hidden = None
        if config.hidden_units:
            self.hidden = keras.layers.Dense(config.hidden_units, activation="relu", dtype=policy, name="hidden")
            self.hidden.build((None, width))
            width = config.hidden_units
        self.output_layer = keras.layers.Dense(len(config.labels), dtype=policy, name="output")
        self.output_layer.build((None, width))
        self.built = True
        # past Keras, which would save the function with the model
        object.__setattr__(self, "_compute", None)

    def _new_encoder(self):
        config, common = self.config, {"dtype": self.dtype_policy, "name": "encoder"}
        if config.encoder == "none":
            return None
        if config.encoder == "directional":
            encoder = DirectionalEncoder(config.units, config.attention_units, config.dropout, **common)
        else:
            encoder = RecurrentEncoder(
                config.encoder, config.units, config.num_layers, dropout=config.dropout, **common
            )
        encoder.build((None, None, config.embedding_dim))
        return encoder

    def _new_pooling(self):
        config, common = self.config, {"dtype": self.dtype_policy, "name": "pooling"}
        if config.pooling == "structured":
            penalty = OrthogonalityRegularizer(config.penalty) if config.penalty else None
            layer = StructuredAttention(config.rows, config.attention_units, weights_regularizer=penalty, **common)
        elif config.pooling == "multi_dim":
            layer = MultiDimPooling(config.attention_units, **common)
        elif config.pooling == "attentive":
            layer = AttentivePooling(config.attention_units, **common)
        else:
            layer = (MaxPooling if config.pooling == "max" else MeanPooling)(**common)
        layer.build((None, None, config.state_units))
        return layer

    # The network

    def call(self, inputs, training=None):
        return self._logits_and_weights(inputs["text"], training)[0]

    def _logits_and_weights(self, ids, training=None):
        """ids int32 (B, T) → logits (B, K), weights float32 (B, rows, T)."""
        mask = tf.not_equal(ids, self.pad_id)
        states = self.embedding_dropout(self.text_embedding(ids), training=training)
        if isinstance(self.encoder, RecurrentEncoder):
            states, _ = self.encoder(states, mask=mask, training=training)
        elif self.encoder is not None:
            states = self.encoder(states, mask=mask, training=training)
        pooled, weights = self._pool(states, mask, training)
        pooled = self.dropout(pooled, training=training)
        if self.hidden is not None:
            pooled = self.dropout(self.hidden(pooled), training=training)
        return tf.cast(self.output_layer(pooled), tf.float32), tf.cast(weights, tf.float32)

    def _pool(self, states, mask, training):
        config = self.config
        if config.pooling == "multi_dim":
            return self.pooling(states, mask=mask)
        pooled, weights = self.pooling(states, mask=mask, return_attention_scores=True, training=training)
        if config.pooling == "structured":
            return tf.reshape(pooled, [-1, config.rows * config.state_units]), weights
        return pooled, weights[:, None, :]

    # Training

    @classmethod
    def learnt_config(cls, examples):
        """The labels of the examples, sorted, and how many examples each has."""
        counts = collections.Counter(example["label"] for example in examples)
        labels = sorted(counts)
        return {"labels": labels, "label_counts": [counts[label] for label in labels]}

    def set_word_vectors(self, vectors, side="text") -> int:
        """Starts the embeddings from vectors that were learnt elsewhere. They are weights of the model from then on: a
        preset holds them, and needs no file of vectors.

        Args:
            vectors: `text.WordVectors`, as wide as `config.embedding_dim`.
            side: "text", the only column with embeddings.

        Returns:
            How many words of the vocabulary were found; the others keep their start.

        Raises:
            ValueError: another width or side, or no tokenizer.
        """
        if side != "text":
            raise ValueError(f"A classifier has embeddings of its text alone. Received {side!r}; write 'text'.")
        return fill_embedding(self.text_embedding, vectors, self.tokenizer)

    def vectorize(self, example: dict[str, str]) -> dict[str, list[int]]:
        """The ids of the text, and the number of the label as a list of one, where the example has a label.

        Raises:
            ValueError: the text is empty or longer than `config.max_length` tokens, or the label is none of the
                model's.
        """
        found = {"text": self._ids(example["text"])} if "text" in example else {}
        return {**found, "label": [self.label_id(example["label"])]} if "label" in example else found

    def label_id(self, label: str) -> int:
        """The place of a label among those of the config.

        Raises:
            ValueError: the model does not know it.
        """
        if label not in self.config.labels:
            known = ", ".join(map(repr, self.config.labels[:20]))
            more = f" and {len(self.config.labels) - 20} more" if len(self.config.labels) > 20 else ""
            raise ValueError(
                f"The label {label!r} is none of those that the model was trained with: {known}{more}. Correct it, "
                "drop the example, or train with examples of it."
            )
        return self.config.labels.index(label)

    def _ids(self, text):
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, so it cannot read text. Give one to the constructor, as `tokenizer`."
            )
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ValueError("The text is empty. Give at least one word.")
        if len(ids) > self.config.max_length:
            raise ValueError(
                f"The text has {len(ids)} tokens; the model reads at most {self.config.max_length}. Shorten or split "
                f"it. It begins with {text[:40]!r}."
            )
        return ids

    def loss_terms(self, batch, training):
        """The sum of the loss over the examples, and their number: two float32 scalars. The penalty of the rows is part
        of it in training. A row without a word, which only fills a batch, is no example.
        """
        logits = self(batch, training=training)
        is_example = tf.reduce_any(tf.not_equal(batch["text"], self.pad_id), axis=1)
        loss, count = self._summed(logits, batch["label"][:, 0], is_example, training)
        if training and self.config.penalty:
            loss += count * tf.add_n([tf.cast(one, tf.float32) for one in self.losses])
        return loss, count

    def loss_from_logits(self, logits, labels, training=False):
        """As `loss_terms`, from the logits (B, K) that `call` returned, and labels (B,) or (B, 1); without penalty."""
        labels = tf.reshape(labels, [-1])
        return self._summed(logits, labels, tf.ones_like(labels, tf.bool), training)

    def _summed(self, logits, labels, is_example, training):
        smoothing = self.config.label_smoothing if training else 0.0
        loss = smoothed_cross_entropy(logits, labels, smoothing)
        if training and self.config.balanced:
            loss *= tf.gather(tf.constant(self.config.label_weights, tf.float32), labels)
        counts = tf.cast(is_example, tf.float32)
        return tf.reduce_sum(loss * counts), tf.reduce_sum(counts)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if self._compile_loss is None and self.config.penalty and training:
            loss += tf.add_n([tf.cast(one, loss.dtype) for one in self.losses])
        return loss

    # Use

    def classify(self, inputs, **options):
        """Finds the label of one text or of each text of a list.

        Args:
            inputs: str, or list of str.
            n_best: int > 0. How many labels: the best one is the prediction, the next ones its `alternatives`.
            attention: bool. Whether predictions have attention maps.
            batch_tokens: int > 0. How many tokens go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs. `output` is the label, `score` its probability,
            `extra["probabilities"]` has those of all labels, `attention` one map, rows × words.

        Raises:
            TypeError, ValueError: see `run`; an unknown option or one out of range.
        """
        return self.run(inputs, **options)

    def predict_examples(self, examples, n_best=1, attention=True, batch_tokens=8192, **unknown):
        if unknown:
            raise ValueError(
                f"`classify` has no option {next(iter(unknown))!r}. Expected some of n_best, attention, batch_tokens."
            )
        check_range("n_best", n_best, 1, len(self.config.labels))
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        texts = [example["text"] for example in examples]
        rows = [self._row(text, place if len(texts) > 1 else 0) for place, text in enumerate(texts, 1)]
        predictions: list = [None] * len(rows)
        for places in budget_batches([len(row) for row in rows], batch_tokens):
            found = self._function()(tf.constant(pad_rows([rows[place] for place in places], self.pad_id)))
            found = {name: value.numpy() for name, value in found.items()}
            for number, place in enumerate(places):
                one = {name: value[number] for name, value in found.items()}
                predictions[place] = self._prediction(one, texts[place], rows[place], n_best, attention)
        return predictions

    def _row(self, text, number):
        try:
            return self._ids(text)
        except ValueError as error:
            raise ValueError(f"Input {number}: {error}" if number else str(error)) from error

    def _prediction(self, found, text, ids, n_best, attention):
        """One row of what `ids` gives, in NumPy."""
        labels = self.config.labels
        probabilities = {label: float(one) for label, one in zip(labels, found["probabilities"], strict=True)}
        order = np.argsort(-found["probabilities"], kind="stable")[:n_best]
        answers = [
            Prediction(labels[place], probabilities[labels[place]], extra={"probabilities": probabilities})
            for place in order
        ]
        maps = [self._attention_map(found["attention"][:, : len(ids)], text, ids, answers[0].output)]
        return dataclasses.replace(answers[0], attention=maps if attention else [], alternatives=answers[1:])

    def _attention_map(self, weights, text, ids, label):
        """weights (rows, T) → one map: the rows of "structured" beside each other, channels one behind the other."""
        words = self.tokenizer.words(text) if isinstance(self.tokenizer, WordTokenizer) else self.tokenizer.tokens(ids)
        axes: tuple[str, ...] = ()
        rows = [f"row {number}" for number in range(1, len(weights) + 1)]
        if self.config.pooling == "multi_dim":
            weights, axes, rows = weights[:, None, :], ("channel",), [label]
        elif self.config.pooling != "structured":
            rows = [label]
        return AttentionMap("words", "pooling", self.config.pooling, np.minimum(weights, 1.0), rows, words, axes)

    def _function(self):
        if self._compute is None:
            object.__setattr__(self, "_compute", self.serving_functions()["ids"])
        return self._compute

    def serving_functions(self, batch_size=None):
        """`ids`: int32 (B, T), padded with 0 → probabilities (B, K), label int32 (B,), attention (B, rows, T). `text`:
        strings (B,) → the same, with the names of the labels, and the ids.

        Args:
            batch_size: int or None. A fixed B, for formats that want one.
        """

        def answer(ids):
            logits, weights = self._logits_and_weights(ids, training=False)
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {"probabilities": tf.nn.softmax(logits), "label": best, "attention": weights}

        @tf.function(input_signature=[tf.TensorSpec([batch_size, None], tf.int32, name="ids")])
        def ids(ids):
            return answer(ids)

        if self.tokenizer is None:
            return {"ids": ids}
        tokenizer, labels = self.tokenizer, self.config.labels

        @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name="text")])
        def text(text):
            pieces = tokenizer.graph_encode(text).to_tensor(self.pad_id)
            found = answer(pieces)
            return {**found, "label": tf.gather(tf.constant(labels), found["label"]), "ids": pieces}

        return {"ids": ids, "text": text}

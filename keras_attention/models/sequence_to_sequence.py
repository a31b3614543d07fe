"""`SequenceToSequence`: what the families that write text from text share: training, search, serving."""

from __future__ import annotations

import functools
from types import MappingProxyType

import keras
import tensorflow as tf
from keras import ops

from keras_attention.models.embeddings import OneHotEmbedding, make_embedding, set_vectors
from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.scheduled_sampling import ScheduledSampling
from keras_attention.models.task_model import TaskModel
from keras_attention.models.text_generation import TextGeneration

__all__ = ["SequenceToSequence"]


class SequenceToSequence(TextGeneration, TaskModel):
    """Base of the families that write text from text: embeddings, output layer, loss; and what
    `TextGeneration` has, search and serving.

    A family builds, in `build_network`, an encoder and a decoder, and gives `encode`. The decoder has

    - `maps`: a `DecoderMap` for each mechanism that reports weights
    - `initial_state(states, memory)`: everything a step carries, nested tensors, B first
    - `project(embedded)`: what depends on the tokens alone
    - `stepper(memory, dtype)`: a function (projected (N, …), state) → output (N, units), weights (N, heads · Tv), state
    - `call(embedded, states, memory, training)`: teacher-forced, (B, Tq, E) → output (B, Tq, units)

    Call arguments:
        inputs: dict of `source` int32 (B, Tv) and `target` int32 (B, Tq), padded with 0, each ended by the end id.

    Returns:
        logits (B, Tq, V) of every target token, given the tokens before it.
    """

    columns = ("source", "target")
    generates = True
    validation_options = MappingProxyType({"beam_size": 1})
    pad_id, start_id, end_id = 0, 2, 3

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.target_embedding = self._new_embedding("target")
        self.source_embedding = self._new_source_embedding()
        self.build_network()
        self.embedding_dropout = keras.layers.Dropout(config.embedding_dropout, dtype=policy, name="embedding_dropout")
        self.output_dropout = keras.layers.Dropout(config.dropout, dtype=policy, name="output_dropout")
        self._build_output()
        self.sampling = None
        if getattr(config, "scheduled_sampling", None):
            self.sampling = ScheduledSampling(config.scheduled_sampling, dtype=policy, name="scheduled_sampling")
            self.sampling.build()
        self.built = True
        # past Keras, which would track the dict and save its functions with the model
        object.__setattr__(self, "_searches", {})

    def build_network(self):
        """Makes `self.encoder` and `self.decoder`, built."""
        raise TypeError(f"{type(self).__name__} defines no `build_network`. Every SequenceToSequence must.")

    def encode(self, source, training=None):
        """source int32 (B, Tv) → memory, which all steps read, and states, from which the first begins; B first."""
        raise TypeError(f"{type(self).__name__} defines no `encode`. Every SequenceToSequence must.")

    def _new_source_embedding(self):
        return self.target_embedding if self.config.tie_embeddings == "all" else self._new_embedding("source")

    def _new_embedding(self, side):
        kind = getattr(self.config, f"{side}_embeddings")
        size, width = self.config.vocabulary_size, self.config.embedding_dim
        return make_embedding(kind, size, width, self.dtype_policy, f"{side}_embedding")

    def set_word_vectors(self, vectors, side="source") -> int:
        """Starts the embeddings from vectors that were learnt elsewhere. They are weights of the model from then on:
        a preset holds them, and needs no file of vectors.

        Args:
            vectors: `text.WordVectors`, as wide as `config.embedding_dim`.
            side: "source" or "target"; where both share one matrix, either.

        Returns:
            How many words of the vocabulary were found; the others keep their start. Of a vocabulary of pieces, those
            count that begin a word.

        Raises:
            ValueError: another width, embeddings without a matrix, or no tokenizer.
        """
        if side not in self.columns:
            raise ValueError(f"`side` must be 'source' or 'target'. Received {side!r}.")
        return set_vectors(getattr(self, f"{side}_embedding"), self.tokenizer, vectors, self.config.embedding_dim**0.5)

    def _build_output(self):
        """From the decoder's output to the logits: a matrix of its own, or the embeddings behind a projection."""
        config = self.config
        self.output_projection = None
        if config.tie_embeddings == "none":
            self.output_kernel = self.add_weight(
                name="output_kernel", shape=(config.vocabulary_size, config.units), initializer="glorot_uniform"
            )
        elif config.embedding_dim != config.units:
            self.output_projection = keras.layers.Dense(
                config.embedding_dim, use_bias=False, dtype=self.dtype_policy, name="output_projection"
            )
            self.output_projection.build((None, config.units))
        self.output_bias = self.add_weight(name="output_bias", shape=(config.vocabulary_size,), initializer="zeros")

    # The network

    def embed(self, embedding, ids, training=None):
        """ids (…) → (…, E). Times √E (Vaswani et al., 2017, section 3.4): a matrix that is an output layer too has
        small entries, and without the factor the words would hardly differ for the cells at first, and learn slowly.
        One-hot vectors stay as they are.
        """
        scale = 1.0 if isinstance(embedding, OneHotEmbedding) else self.config.embedding_dim**0.5
        return self.embedding_dropout(embedding(ids) * scale, training=training)

    def decode(self, source, target, training=None):
        """Teacher-forced: source (B, Tv), target (B, Tq) → output (B, Tq, units), one for each token of the target."""
        memory, states = self.encode(source, training=training)
        previous = ops.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=self.start_id)
        if training and self.sampling is not None:
            output = self._decode_sampled(previous, states, memory)
        else:
            embedded = self.embed(self.target_embedding, previous, training=training)
            output = self.decoder(embedded, states, memory, training=training)
        return self.output_dropout(output, training=training)

    def _decode_sampled(self, previous, states, memory):
        """As `decode` in training, with tokens of the model's own among those that are fed."""
        embed, logits = functools.partial(self.embed, self.target_embedding), self._output_layer(self.compute_dtype)
        gold = embed(previous)
        noise = self.embedding_dropout(tf.ones_like(gold), training=True)
        masks = self.decoder.stack.dropout_masks(gold, True)
        step_once = self.decoder.stepper(memory, gold.dtype, masks, training=True)

        def step(embedded, state):
            output, _, state = step_once(self.decoder.project(embedded), state)
            return output, state

        state = self.decoder.initial_state(states, memory, training=True)
        return self.sampling.decode(step, gold * noise, noise, embed, logits, state)

    def logits(self, output):
        """output (…, units) → logits (…, V)."""
        return self._output_layer(output.dtype)(output)

    def _output_layer(self, dtype):
        """A function output (…, units) → logits (…, V), whose matrix is cast here, once for all steps of a search."""
        tied = self.config.tie_embeddings != "none"
        matrix = ops.cast(self.target_embedding.embeddings if tied else self.output_kernel, dtype)
        bias = ops.cast(self.output_bias, dtype)

        def logits(output):
            if self.output_projection is not None:
                output = self.output_projection(output)
            return tf.matmul(output, matrix, transpose_b=True) + bias

        return logits

    def call(self, inputs, training=None):
        output = self.decode(inputs["source"], inputs["target"], training=training)
        shape = tf.shape(output)
        logits = self.logits(tf.reshape(output, [-1, self.config.units]))
        return tf.reshape(logits, [shape[0], shape[1], self.config.vocabulary_size])

    # Training

    def vectorize(self, example: dict[str, str]) -> dict[str, list[int]]:
        """The ids of each column of an example that it has, ended by the end id.

        Raises:
            ValueError: a column is empty or longer than `config.max_length` pieces.
        """
        return {column: self._ids(column, example[column]) for column in self.columns if column in example}

    def _ids(self, column, text, where=""):
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, so it cannot read text. Give one to the constructor, as `tokenizer`."
            )
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ValueError(f"The {column} is empty{where}. Give at least one word.")
        if len(ids) >= self.config.max_length:
            raise ValueError(
                f"The {column} has {len(ids)} pieces{where}; the model reads at most {self.config.max_length - 1}. "
                f"Split it into sentences. It begins with {text[:40]!r}."
            )
        return [*ids, self.end_id]

    def loss_terms(self, batch, training):
        """The sum of the loss over the target's tokens, and their number: two float32 scalars.

        The output layer runs over the tokens only, not over the padding.
        """
        output = self.decode(batch["source"], batch["target"], training=training)
        is_token = tf.not_equal(batch["target"], self.pad_id)
        labels = tf.boolean_mask(batch["target"], is_token)
        smoothing = self.config.label_smoothing if training else 0.0
        loss = smoothed_cross_entropy(self.logits(tf.boolean_mask(output, is_token)), labels, smoothing)
        return tf.reduce_sum(loss), tf.reduce_sum(tf.cast(is_token, tf.float32))

    def loss_from_logits(self, logits, target, training=False):
        """As `loss_terms`, from the logits (B, Tq, V) that `call` returned."""
        is_token = tf.not_equal(target, self.pad_id)
        smoothing = self.config.label_smoothing if training else 0.0
        loss = smoothed_cross_entropy(tf.boolean_mask(logits, is_token), tf.boolean_mask(target, is_token), smoothing)
        return tf.reduce_sum(loss), tf.reduce_sum(tf.cast(is_token, tf.float32))

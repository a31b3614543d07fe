"""The family `translation`: a recurrent encoder and decoder with attention, from text to text."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attention import decoding, layers
from keras_attention.maps import AttentionMap
from keras_attention.models.attention_decoder import AttentionDecoder
from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.prediction import Prediction
from keras_attention.models.recurrent_encoder import RecurrentEncoder
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.task_model import TaskModel
from keras_attention.models.translation_config import TranslationConfig, check_range, check_search_options
from keras_attention.text import SentencePieceTokenizer

__all__ = ["TranslationConfig", "TranslationModel"]


@keras.saving.register_keras_serializable("keras_attention")
class TranslationModel(TaskModel):
    """Sequence to sequence with Luong attention.

    Luong et al., 2015 (arXiv 1508.04025). Differs from the paper: the encoder may be bidirectional, subword pieces
    instead of words, embeddings may be tied, label smoothing.

    Args:
        config: `TranslationConfig` or the dict of one.
        tokenizer: `SentencePieceTokenizer`; only needed by what reads or writes text.

    Call arguments:
        inputs: dict of `source` int32 (B, Tv) and `target` int32 (B, Tq), padded with 0, each ended by the end id.

    Returns:
        logits (B, Tq, V) of every target token, given the tokens before it.
    """

    family = "translation"
    task = "translation"
    verb = "translate"
    columns = ("source", "target")
    config_class = TranslationConfig
    tokenizer_class = SentencePieceTokenizer
    pad_id, start_id, end_id = 0, 2, 3

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.target_embedding = self._new_embedding("target_embedding")
        tied = config.tie_embeddings == "all"
        self.source_embedding = self.target_embedding if tied else self._new_embedding("source_embedding")
        common = {
            "cell": config.cell,
            "units": config.units,
            "num_layers": config.num_layers,
            "dropout": config.dropout,
        }
        self.encoder = RecurrentEncoder(bidirectional=config.bidirectional, dtype=policy, name="encoder", **common)
        self.encoder.build((None, None, config.embedding_dim))
        attention = layers.LuongAttention(config.score, units=config.score_units, dtype=policy, name="attention")
        self.decoder = AttentionDecoder(attention, feed=config.feed, dtype=policy, name="decoder", **common)
        self.decoder.build((None, None, config.embedding_dim), (None, None, config.units))
        self.embedding_dropout = keras.layers.Dropout(config.embedding_dropout, dtype=policy, name="embedding_dropout")
        self.output_dropout = keras.layers.Dropout(config.dropout, dtype=policy, name="output_dropout")
        self._build_output()
        self.built = True
        # past Keras, which would track the dict and save its functions with the model
        object.__setattr__(self, "_searches", {})

    def _new_embedding(self, name):
        size, width = self.config.vocabulary_size, self.config.embedding_dim
        start = keras.initializers.RandomNormal(stddev=width**-0.5)
        layer = keras.layers.Embedding(size, width, embeddings_initializer=start, dtype=self.dtype_policy, name=name)
        layer.build()
        return layer

    def _build_output(self):
        """The matrices from h̃ to the logits: one of its own, or the embeddings behind a projection to their width."""
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
        """
        return self.embedding_dropout(embedding(ids) * self.config.embedding_dim**0.5, training=training)

    def encode(self, source, training=None):
        """source int32 (B, Tv) → `PreparedKeys`, the encoder's last states layer by layer."""
        mask = ops.not_equal(source, self.pad_id)
        embedded = self.embed(self.source_embedding, source, training=training)
        values, states = self.encoder(embedded, mask=mask, training=training)
        return self.decoder.attention.prepare(values, mask=mask), states

    def decode(self, source, target, training=None):
        """Teacher-forced: source (B, Tv), target (B, Tq) → h̃ (B, Tq, units), one for each token of the target."""
        prepared, states = self.encode(source, training=training)
        previous = ops.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=self.start_id)
        embedded = self.embed(self.target_embedding, previous, training=training)
        attentional = self.decoder(embedded, states, prepared, training=training)
        return self.output_dropout(attentional, training=training)

    def logits(self, attentional):
        """h̃ (…, units) → logits (…, V)."""
        return self._output_layer(attentional.dtype)(attentional)

    def _output_layer(self, dtype):
        """A function h̃ (…, units) → logits (…, V), whose matrix is cast here, once for all steps of a search."""
        tied = self.config.tie_embeddings != "none"
        matrix = ops.cast(self.target_embedding.embeddings if tied else self.output_kernel, dtype)
        bias = ops.cast(self.output_bias, dtype)

        def logits(attentional):
            if self.output_projection is not None:
                attentional = self.output_projection(attentional)
            return tf.matmul(attentional, matrix, transpose_b=True) + bias

        return logits

    def call(self, inputs, training=None):
        attentional = self.decode(inputs["source"], inputs["target"], training=training)
        shape = tf.shape(attentional)
        logits = self.logits(tf.reshape(attentional, [-1, self.config.units]))
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
        attentional = self.decode(batch["source"], batch["target"], training=training)
        is_token = tf.not_equal(batch["target"], self.pad_id)
        labels = tf.boolean_mask(batch["target"], is_token)
        smoothing = self.config.label_smoothing if training else 0.0
        loss = smoothed_cross_entropy(self.logits(tf.boolean_mask(attentional, is_token)), labels, smoothing)
        return tf.reduce_sum(loss), tf.reduce_sum(tf.cast(is_token, tf.float32))

    def loss_from_logits(self, logits, target, training=False):
        """As `loss_terms`, from the logits (B, Tq, V) that `call` returned."""
        is_token = tf.not_equal(target, self.pad_id)
        smoothing = self.config.label_smoothing if training else 0.0
        loss = smoothed_cross_entropy(tf.boolean_mask(logits, is_token), tf.boolean_mask(target, is_token), smoothing)
        return tf.reduce_sum(loss), tf.reduce_sum(tf.cast(is_token, tf.float32))

    # Search

    def output_limits(self, source, max_length):
        """Longest output of each row in tokens, int32 (B,): twice the input and a few more, at most `max_length`.

        It depends on the row alone, so that a sentence gets the same translation in every batch.
        """
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(source, self.pad_id), tf.int32), axis=1)
        return tf.minimum(2 * lengths + 10, max_length)

    def search(self, source, beam_size=1, length_penalty=0.0, max_length=None, return_attention=True):
        """The best outputs for a batch, in the graph: greedy for one beam, beam search for more.

        Args:
            source: int32 (B, Tv), padded with 0, each row ended by the end id.
            beam_size, length_penalty, return_attention: see `keras_attention.decoding`.
            max_length: int. Longest output in pieces; the configuration's by default.

        Returns:
            `decoding.Hypotheses`.
        """
        room = max_length or self.config.max_length
        settings = decoding.SearchSettings(
            self.start_id, self.end_id, self.pad_id, room, float(length_penalty), return_attention
        )
        prepared, states = self.encode(source)
        state = self.decoder.initial_state(states, prepared)
        rows = prepared if beam_size == 1 else decoding.repeat_rows(prepared, beam_size)
        step = self.stepper(rows)
        limits, columns = self.output_limits(source, room), tf.shape(source)[1]
        if beam_size == 1:
            return decoding.greedy_search(step, state, limits, settings, columns)
        return decoding.beam_search(step, state, limits, settings, beam_size, columns)

    def stepper(self, prepared):
        """The step of a search: a function (ids int32 (N,), state) → logits (N, V), weights (N, Tv), state.

        The pad and the start id are no output: their logits are lower than any other.
        """
        step, logits = self.decoder.stepper(prepared, self.compute_dtype), self._output_layer(self.compute_dtype)
        places = np.arange(self.config.vocabulary_size)
        never = tf.constant(
            np.where((places == self.pad_id) | (places == self.start_id), decoding.IMPOSSIBLE, 0.0), tf.float32
        )

        def next_logits(ids, state):
            projected = self.decoder.project(self.embed(self.target_embedding, ids))
            attentional, weights, state = step(projected, state)
            return tf.cast(logits(attentional), tf.float32) + never, weights, state

        return next_logits

    def translate(self, inputs, **options):
        """Translates one text or a list of texts.

        Args:
            inputs: str, or list of str.
            beam_size: int > 0; 1 is greedy. The configuration's by default.
            n_best: int, 1 … beam_size. How many translations to return: the best is the prediction, the others its
                `alternatives`.
            length_penalty: float >= 0, the α of `decoding.length_penalty`.
            max_length: int > 0. Longest output in pieces.
            attention: bool. Also return the attention of every translation.
            batch_tokens: int > 0. How many source pieces, times beams, go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs, whose `output` is the translation.

        Raises:
            TypeError, ValueError: see `run`; or an option out of range.
        """
        return self.run(inputs, **options)

    def predict_examples(
        self,
        examples,
        beam_size=None,
        n_best=1,
        length_penalty=None,
        max_length=None,
        attention=True,
        batch_tokens=8192,
    ):
        config = self.config
        check_range("n_best", n_best, 1, config.vocabulary_size // 2)
        beam_size = max(config.beam_size, n_best) if beam_size is None else beam_size
        length_penalty = config.length_penalty if length_penalty is None else length_penalty
        max_length = config.max_length if max_length is None else max_length
        check_search_options(beam_size, length_penalty, max_length, config.vocabulary_size)
        check_range("n_best", n_best, 1, beam_size)
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        places = [f" (input {place})" if len(examples) > 1 else "" for place in range(1, len(examples) + 1)]
        sources = [self._ids("source", one["source"], place) for one, place in zip(examples, places, strict=True)]
        search = self._search_function(beam_size, float(length_penalty), max_length, attention)
        predictions: list = [None] * len(sources)
        for rows in budget_batches([len(ids) for ids in sources], batch_tokens // beam_size):
            found = search(tf.constant(pad_rows([sources[row] for row in rows], self.pad_id)))
            found = decoding.Hypotheses(*(part.numpy() for part in found))
            for place, row in enumerate(rows):
                one = decoding.Hypotheses(*(part[place] for part in found))
                predictions[row] = self._prediction(one, sources[row], n_best, attention)
        return predictions

    def _search_function(self, *key):
        """The compiled search of these settings, traced once for all shapes."""
        if key not in self._searches:
            beam_size, length_penalty, max_length, attention = key

            @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
            def search(source):
                return self.search(source, beam_size, length_penalty, max_length, attention)

            self._searches[key] = search
        return self._searches[key]

    def _prediction(self, found, source, n_best, attention):
        """One row of `Hypotheses`, in NumPy: its best hypothesis, with the next ones as alternatives."""
        answers = []
        for place in range(n_best):
            length = int(found.length[place])
            if length == 0:
                break
            ids = [int(one) for one in found.ids[place, :length]]
            maps = (
                [self._attention_map(found.attention[place, :length, : len(source)], ids, source)] if attention else []
            )
            extra = {"log_probability": float(found.log_probability[place])}
            answers.append(Prediction(self.tokenizer.decode(ids), float(found.score[place]), maps, extra=extra))
        return dataclasses.replace(answers[0], alternatives=answers[1:])

    def _attention_map(self, weights, ids, source):
        tokens = self.tokenizer.tokens
        return AttentionMap(
            "decoder", "decoder/attention", "decoder", np.ascontiguousarray(weights), tokens(ids), tokens(source)
        )

    # Export

    def serving_functions(self, beam_size=1, length_penalty=None, batch_size=None):
        """`ids`: source int32 (B, Tv) → ids (B, K, T), length, score (B, K), attention (B, K, T, Tv). `text`: strings
        in and out.

        Args:
            beam_size: int > 0. K; 1 is greedy.
            length_penalty: float >= 0; the configuration's by default.
            batch_size: int or None. A fixed B, for formats that want one.

        Raises:
            ValueError: an option out of range.
        """
        length_penalty = self.config.length_penalty if length_penalty is None else length_penalty
        check_search_options(beam_size, length_penalty, self.config.max_length, self.config.vocabulary_size)

        def search(source):
            found = self.search(source, beam_size, length_penalty)
            return {"ids": found.ids, "length": found.length, "score": found.score, "attention": found.attention}

        @tf.function(input_signature=[tf.TensorSpec([batch_size, None], tf.int32, name="source")])
        def ids(source):
            return search(source)

        functions = {"ids": ids}
        if self.tokenizer is not None:
            functions["text"] = self._text_function(search, batch_size)
        return functions

    def _text_function(self, search, batch_size):
        tokenizer = self.tokenizer

        @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name="text")])
        def text(text):
            pieces = tokenizer.graph_encode(text)
            ends = tf.fill([pieces.nrows(), 1], self.end_id)
            source = tf.concat([pieces, tf.cast(ends, pieces.dtype)], axis=1).to_tensor(self.pad_id)
            found = search(source)
            rows = tf.reshape(found["ids"], [-1, tf.shape(found["ids"])[2]])
            outputs = tf.reshape(tokenizer.graph_decode(rows), tf.shape(found["score"]))
            return {"text": outputs, "source_ids": source, **found}

        return text

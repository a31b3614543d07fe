"""Tagging: a tag for each word of a sentence, such as its part of speech, a named entity or a semantic role."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_attention.layers import ConditionalRandomField, tag_constraints
from keras_attention.maps import AttentionMap
from keras_attention.models.deep_attention import DeepAttention
from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.prediction import Prediction
from keras_attention.models.recurrent_encoder import RecurrentEncoder
from keras_attention.models.search_options import check_range
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.tagged_words import TaggedWords
from keras_attention.models.tagging_config import TaggingConfig
from keras_attention.models.word_features import AFFIXES, FORMS, SHAPES

__all__ = ["TaggingModel"]


@keras.saving.register_keras_serializable("keras_attention")
class TaggingModel(TaggedWords):
    """Words through an encoder, and a tag for each.

    Tan et al., 2018 (arXiv 1712.01586), see `DeepAttention`, or a bidirectional LSTM. A word is its embedding, by which
    it is known, and those of its form (see `word_features.form_ids`), which unknown words have too; the predicate of
    semantic roles is marked by an embedding. The tags come from a softmax for each word, or from a conditional random
    field; where they are spans in BIO, what is chosen always is (by the Viterbi algorithm).
    Differs from the paper: the forms of words; it takes the best tag of each word, spans or not.

    Args:
        config: `TaggingConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer`; without one the model reads ids only.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `id_columns`, each int32 (B, T), padded with 0.

    Returns:
        logits (B, T, K), a score for each of `config.labels`; of a conditional random field its emissions.

    Example:
        model = keras_attention.zoo.load("tag_selfattention.pos")
        model.tag("The cat sat.").output
    """

    family, task, verb = "tagging", "tagging", "tag"
    config_class = TaggingConfig
    counted = "words"

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.build_embedding()
        self.affixes = self._table(1 + config.affix_buckets, config.affix_dim, "affixes")
        self.shapes = self._table(SHAPES, config.shape_dim, "shapes")
        width = config.embedding_dim + len(AFFIXES) * config.affix_dim + config.shape_dim
        if config.has_predicate:
            self.predicates = self._table(3, config.predicate_dim, "predicates")
            width += config.predicate_dim
        self.encoder = self._new_encoder()
        self.encoder.build((None, None, width))
        self.dropout = keras.layers.Dropout(config.dropout, dtype=policy, name="dropout")
        self.output_layer = keras.layers.Dense(len(config.labels), dtype=policy, name="output")
        self.output_layer.build((None, None, config.units))
        self.chain = self._new_chain()
        self.built = True
        object.__setattr__(self, "_functions", {})  # past Keras, which would save the functions with the model

    def _table(self, size, width, name):
        start = keras.initializers.RandomNormal(stddev=width**-0.5)
        layer = keras.layers.Embedding(size, width, embeddings_initializer=start, dtype=self.dtype_policy, name=name)
        layer.build()
        return layer

    def _new_encoder(self):
        config, options = self.config, {"dtype": self.dtype_policy, "name": "encoder"}
        if config.encoder == "lstm":
            return RecurrentEncoder("lstm", config.units, config.num_layers, dropout=config.dropout, **options)
        return DeepAttention(
            config.units,
            config.num_layers,
            config.num_heads,
            config.nonlinear,
            config.feed_forward_units,
            config.dropout,
            config.attention_dropout,
            **options,
        )

    def _new_chain(self):
        """What chooses the tags together, or None. Without `crf` it knows what may follow what, and no more."""
        config = self.config
        if not (config.crf or config.spans):
            return None
        rules = tag_constraints(config.labels) if config.spans else {}
        start = "glorot_uniform" if config.crf else "zeros"
        chain = ConditionalRandomField(
            len(config.labels), **rules, transition_initializer=start, dtype=self.dtype_policy, name="chain"
        )
        chain.trainable = config.crf
        return chain

    def tag(self, inputs, **options):
        """Tags one text or a list of texts.

        Args:
            inputs: str, running text, which is split into words; or a dict of `words`, a list of str or running text;
                or a list of these and of lists of words. For semantic roles the predicate is marked in the text, as in
                "The cat [chased] the mouse.", or `predicate` is its place among the words, from 0.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs: `output` is a list of (word, tag), `score` the
            log-probability of the tags, in nats a word. Where tags are spans, `extra["spans"]` has for each its `type`,
            its `text`, and `start` and `end`, places of words from 0, the end not within. Self-attention gives a map
            for each layer.

        Raises:
            TypeError, ValueError: see `run`.
        """
        return self.run(inputs, **options)

    # The network

    def read(self, inputs, training=None, return_weights=False):
        """ids (B, T) → logits float32 (B, T, K), and a list of weights (B, H, T, T), one a layer."""
        mask = tf.not_equal(inputs["words"], self.pad_id)
        affixes = self.affixes(tf.stack([inputs[name] for name in AFFIXES], axis=-1))  # (B, T, affixes, A)
        shape = tf.shape(inputs["words"])
        flat = tf.reshape(affixes, [shape[0], shape[1], len(AFFIXES) * self.config.affix_dim])
        parts = [self.embedding(inputs["words"]), flat, self.shapes(inputs["shapes"])]
        if self.config.has_predicate:
            parts.append(self.predicates(inputs["predicate"]))
        embedded = self.embedding_dropout(tf.concat(parts, axis=-1), training=training)
        weights = []
        if self.config.encoder == "lstm":
            states, _ = self.encoder(embedded, mask=mask, training=training)
        else:
            states, weights = self.encoder(embedded, mask=mask, training=training, return_weights=return_weights)
        return tf.cast(self.output_layer(self.dropout(states, training=training)), tf.float32), weights

    def call(self, inputs, training=None):
        return self.read(inputs, training)[0]

    def choose(self, logits, mask):
        """The best tags of logits (B, T, K), and how probable they are.

        Returns:
            tags int32 (B, T), from 0, −1 on padding; the log-probability of all tags of a row, float32 (B,).
        """
        if not self.config.crf:
            logits = tf.nn.log_softmax(logits)
        if self.chain is None:
            score = tf.reduce_sum(tf.where(mask, tf.reduce_max(logits, axis=-1), 0.0), axis=1)
            return tf.where(mask, tf.argmax(logits, axis=-1, output_type=tf.int32), -1), score
        tags, score = self.chain.decode(logits, mask)
        if self.config.crf:
            score -= self.chain.log_partition(logits, mask)
        return tf.where(mask, tags, -1), score

    def loss_terms(self, batch, training):
        """The sum of the loss over the words, and their number: two float32 scalars."""
        return self.loss_from_logits(self(batch, training=training), batch["tags"], training)

    def loss_from_logits(self, logits, tags, training=False):
        """As `loss_terms`, from what `call` returned, and the tags (B, T), from 1; 0 is padding."""
        mask, places = tags > 0, tf.maximum(tags - 1, 0)
        count = tf.reduce_sum(tf.cast(mask, tf.float32))
        if self.config.crf:
            return -tf.reduce_sum(self.chain.log_likelihood(logits, places, mask)), count
        smoothing = self.config.label_smoothing if training else 0.0
        losses = smoothed_cross_entropy(tf.reshape(logits, [-1, logits.shape[-1]]), tf.reshape(places, [-1]), smoothing)
        return tf.reduce_sum(losses * tf.cast(tf.reshape(mask, [-1]), tf.float32)), count

    # Predictions

    def predict_examples(self, examples, attention=True, batch_tokens=8192):
        """Checked examples to predictions.

        Args:
            attention: bool. Whether to report what was looked at.
            batch_tokens: int > 0. How many words go through the network at once.
        """
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        rows = self.rows_of(examples, self.read_words)
        predictions: list = [None] * len(rows)
        for batch in budget_batches([len(words) for words, _ in rows], batch_tokens):
            padded = [tf.constant(pad_rows([rows[place][1][name] for place in batch])) for name in self.id_columns]
            tags, score, *weights = (one.numpy() for one in self._function(bool(attention))(*padded))
            for row, place in enumerate(batch):
                words = rows[place][0]
                maps = [self._map(number, one[row], words) for number, one in enumerate(weights, start=1)]
                predictions[place] = self._prediction(words, tags[row], float(score[row]), maps)
        return predictions

    def _function(self, return_weights):
        if return_weights not in self._functions:
            spec = [tf.TensorSpec([None, None], tf.int32, name=name) for name in self.id_columns]
            found = tf.function(lambda *columns: self._found(columns, return_weights), input_signature=spec)
            self._functions[return_weights] = found
        return self._functions[return_weights]

    def _found(self, columns, return_weights=True):
        """Columns in the order of `id_columns` → tags (B, T), score (B,) a word, and the weights of each layer."""
        inputs = dict(zip(self.id_columns, columns, strict=True))
        mask = tf.not_equal(inputs["words"], self.pad_id)
        logits, weights = self.read(inputs, return_weights=return_weights)
        tags, score = self.choose(logits, mask)
        score /= tf.maximum(tf.reduce_sum(tf.cast(mask, tf.float32), axis=1), 1.0)
        return [tags, score, *weights]

    @staticmethod
    def _map(number, weights, words):
        own = weights[:, : len(words), : len(words)]
        return AttentionMap(
            f"layer_{number}", f"encoder/attention_{number - 1}", "scaled_dot", own, words, words, ("head",)
        )

    def _prediction(self, words, tags, score, maps):
        names = [self.config.labels[tag] for tag in tags[: len(words)]]
        extra = {"spans": spans_of(words, names)} if self.config.spans else {}
        return Prediction(list(zip(words, names, strict=True)), score, maps, extra=extra)

    # Export

    def serving_functions(self, batch_size=None):
        """`ids`: `id_columns`, each int32 (B, T) → `tags` int32 (B, T), places of labels, −1 on padding; `score` (B,),
        the log-probability of the tags, in nats a word; and the weights of each layer, `attention_1` …, (B, H, T, T).
        `text`: string (B,) → the same, with the `words` that it found and their `labels`, string (B, T), padded with
        "", and as `text` (B,) both in a line, "word/TAG word/TAG".
        """
        spec = [tf.TensorSpec([batch_size, None], tf.int32, name=name) for name in self.id_columns]

        def named(found):
            maps = {f"attention_{number}": one for number, one in enumerate(found[2:], start=1)}
            return {"tags": found[0], "score": found[1], **maps}

        @tf.function(input_signature=spec)
        def ids(*columns):
            return named(self._found(columns))

        functions = {"ids": ids}
        if self.tokenizer is not None:

            @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name="words")])
            def text(strings):
                words, columns = self.graph_columns(strings)
                outputs = named(self._found([columns[name] for name in self.id_columns]))
                tags = tf.RaggedTensor.from_tensor(outputs["tags"], words.row_lengths())
                labels = tags.with_values(tf.gather(tf.constant(self.config.labels), tags.values))
                lines = tf.strings.reduce_join(tf.strings.join([words, labels], "/"), axis=1, separator=" ")
                return {"text": lines, "words": words.to_tensor(""), "labels": labels.to_tensor(""), **outputs}

            functions["text"] = text
        return functions

    def random_ids(self, length, random):
        config = self.config
        highs = {"words": config.vocabulary_size, "shapes": SHAPES, **dict.fromkeys(AFFIXES, 1 + config.affix_buckets)}
        row = {name: random.integers(1, highs[name], length).tolist() for name in ("words", *FORMS)}
        predicate = [2 if place == length // 2 else 1 for place in range(length)]
        return {**row, "predicate": predicate} if config.has_predicate else row

    def output_loss(self, inputs, outputs):
        padded = {name: tf.constant(value) for name, value in inputs.items()}
        total, count = self.loss_from_logits(self(padded, training=False), tf.constant(outputs["tags"] + 1))
        return float(total / tf.maximum(count, 1.0))

    def sidecar(self):
        return {
            "special_ids": {"pad": self.pad_id},
            "max_length": self.config.max_length,
            "labels": list(self.config.labels),
            "affix_buckets": self.config.affix_buckets,
        }


def spans_of(words, tags) -> list[dict]:
    """The spans of tags in BIO, in their order: `type`, `text`, `start`, `end`, the end not within."""
    spans: list[dict] = []
    for place, tag in enumerate(tags):
        if tag.startswith("I-") and spans and spans[-1]["end"] == place and spans[-1]["type"] == tag[2:]:
            spans[-1]["end"] = place + 1
        elif tag != "O":
            spans.append({"type": tag[2:], "text": "", "start": place, "end": place + 1})
    for one in spans:
        one["text"] = " ".join(words[one["start"] : one["end"]])
    return spans

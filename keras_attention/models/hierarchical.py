"""Classification of documents: a label, the sentences that were looked at, and the words in them."""

from __future__ import annotations

import itertools
import re

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import AttentivePooling, HierarchicalAttention, MaxPooling, MeanPooling
from keras_attention.maps import AttentionMap, DocumentMap
from keras_attention.models.both_directions import both_directions
from keras_attention.models.hierarchical_config import HierarchicalConfig
from keras_attention.models.label_model import LabelModel
from keras_attention.models.sentence_split import split_sentences

__all__ = ["HierarchicalModel"]

_ENDS = (".", "!", "?", "¶")
_BREAK, _LINE = r"[ \t\r]*\n[ \t\r\n]*", " ¶ "
_CHUNK = 16  # sentences that an export reads at once
_RECURRENT = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


@keras.saving.register_keras_serializable("keras_attention")
class HierarchicalModel(LabelModel):
    """Words into sentences, sentences into a document, each by attention, and a label from the document.

    Yang et al., 2016 (NAACL, N16-1174), section 2: bidirectional GRUs over words and over sentences, attention over
    each (`layers.HierarchicalAttention`). Sentences are found in the graph: they end at . ! ? and at the end of a line,
    and after `config.max_words`.
    Differs from the paper: dropout, and sentences that are cut after `max_words`.

    Args:
        config: `HierarchicalConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer`, whose words should have the ends of sentences among them.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `text` int32 (B, T), padded with 0.

    Returns:
        logits (B, C).

    Example:
        model = keras_attention.zoo.load("classify_hierarchical")
        model.classify(open("review.txt").read()).attention[0].html("review.html")
    """

    family, task, verb = "hierarchical_classification", "classification", "classify"
    config_class = HierarchicalConfig

    def build_network(self):
        config, policy = self.config, self.dtype_policy
        self.document = HierarchicalAttention(
            word_encoder=self._new_encoder("word_encoder"),
            sentence_encoder=self._new_encoder("sentence_encoder"),
            word_pooling=self._new_pooling("word_pooling"),
            sentence_pooling=self._new_pooling("sentence_pooling"),
            dtype=policy,
            name="document",
        )
        self.document.build((None, None, None, config.embedding_dim))
        return config.embedding_dim if config.encoder == "none" else config.units

    def _new_encoder(self, name):
        config, policy = self.config, self.dtype_policy
        if config.encoder == "none":
            return None
        layer = _RECURRENT[config.encoder](config.units // 2, return_sequences=True, dtype=policy, name=config.encoder)
        return both_directions(layer, dtype=policy, name=name)

    def _new_pooling(self, name):
        options = {"dtype": self.dtype_policy, "name": name}
        if self.config.pooling == "attentive":
            return AttentivePooling(self.config.attention_units, **options)
        return (MeanPooling if self.config.pooling == "mean" else MaxPooling)(**options)

    def classify(self, inputs, **options):
        """Labels one document or a list of documents.

        Args:
            inputs: str, or list of str.
            n_best: int > 0. How many labels, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs: `output` is the label, `score` its probability,
            `extra["probabilities"]` has that of each label. `attention` is a `maps.DocumentMap` of the words, whose
            `html` shows both levels, and an `AttentionMap` of the sentences.

        Raises:
            TypeError, ValueError: see `run`.
        """
        return self.run(inputs, **options)

    # Text

    @classmethod
    def learn_tokenizer(cls, examples, kind, vocabulary_size, **options):
        """As that of all models; the ends of sentences are always among its words."""
        texts = [re.sub(_BREAK, _LINE, example["text"]) for example in examples]
        ends = [" ".join(_ENDS)] * options.get("min_count", 1)
        return super().learn_tokenizer([{"text": text} for text in texts + ends], kind, vocabulary_size, **options)

    def words_of(self, column, value):
        return self.tokenizer.encode(re.sub(_BREAK, _LINE, value))

    def graph_ids(self, column, strings):
        return super().graph_ids(column, tf.strings.regex_replace(strings, _BREAK, _LINE))

    def _split(self, ids):
        """int32 (B, T) → (B, S, W)."""
        return split_sentences(ids, self._end_ids(), max_words=self.config.max_words)

    def _end_ids(self):
        """Ids of the words that end a sentence; without a tokenizer of any, no sentence ends but by its length."""
        known = self.tokenizer.encode(" ".join(_ENDS)) if self.tokenizer is not None else []
        found = {one for one in known if one != self.tokenizer.unk_id}
        return sorted(found) or [self.config.vocabulary_size]

    # The network

    def read(self, inputs, training=None):
        sentences = self._split(inputs["text"])
        if sentences.shape[0] == 1:  # as exports for one document have it
            return self._read_in_chunks(sentences)
        mask = tf.not_equal(sentences, self.pad_id)
        vector, words, weights = self.document(
            self.embed(sentences, training), mask=mask, return_attention_scores=True, training=training
        )
        return vector, {"words": words, "sentences": weights}

    def _read_in_chunks(self, sentences):
        """As `read`, of one document (1, S, W), some sentences at a time: LiteRT wants to know how many rows a
        recurrent layer reads.
        """
        count = tf.shape(sentences)[1]
        chunks = (count + _CHUNK - 1) // _CHUNK
        rows = tf.pad(sentences[0], [[0, chunks * _CHUNK - count], [0, 0]])

        def step(number, vectors, weights):
            ids = tf.slice(rows, [number * _CHUNK, 0], [_CHUNK, -1])
            read, own = self.document.read_words(self.embed(ids), tf.not_equal(ids, self.pad_id))
            return number + 1, tf.concat([vectors, read], 0), tf.concat([weights, own], 0)

        width = self.config.embedding_dim if self.config.encoder == "none" else self.config.units
        _, *first = step(0, tf.zeros([0, width], self.compute_dtype), tf.zeros([0, tf.shape(rows)[1]]))
        shapes = [tf.TensorShape([]), tf.TensorShape([None, first[0].shape[1]]), tf.TensorShape([None, None])]
        _, vectors, weights = tf.while_loop(
            lambda number, *_: number < chunks, step, [tf.constant(1), *first], shape_invariants=shapes
        )
        mask = tf.reduce_any(tf.not_equal(sentences, self.pad_id), axis=-1)  # (1, S)
        vector, seen = self.document.read_sentences(vectors[None, :count], mask)
        return vector, {"words": weights[None, :count], "sentences": seen}

    def attention_maps(self, ids, weights):
        """The words, each in its sentence, and the sentences of the document."""
        rows = self._split(tf.constant([ids["text"]]))[0].numpy()
        lengths = (rows != self.pad_id).sum(axis=1)
        kept = np.concatenate([weights["words"][place, :length] for place, length in enumerate(lengths)])
        words = self.tokenizer.tokens(rows[rows != self.pad_id].tolist())
        seen = weights["sentences"][: len(lengths)]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        names = [" ".join(words[first:last]) for first, last in itertools.pairwise(starts)]
        kind = self.config.pooling
        document = DocumentMap(
            "words", "word_pooling", kind, kept[None], ["words in their sentences"], words,
            sentence_lengths=lengths, sentence_weights=seen,
        )  # fmt: skip
        return [document, AttentionMap("sentences", "sentence_pooling", kind, seen[None], ["document"], names)]

"""Relation classification: how two marked entities of a sentence belong together, and the words that tell."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import AttentivePooling
from keras_attention.maps import AttentionMap
from keras_attention.models.label_model import LabelModel
from keras_attention.models.losses import ranking_loss
from keras_attention.models.relation_config import RelationConfig
from keras_attention.models.relation_encoder import AddedDirections, RelativePositions, SelfAttentionEncoder
from keras_attention.models.sequences import masked_mean
from keras_attention.text import WordTokenizer
from keras_attention.text.entity_marks import (
    MARK_WORDS,
    check_marks,
    graph_reserve_marks,
    reserve_marks,
    shown,
    split_at_marks,
)

__all__ = ["RelationModel"]

MARK_IDS = (4, 5, 6, 7)  # of <e1>, </e1>, <e2>, </e2>: the first words of the tokenizer


class RelationModel(LabelModel):
    """A sentence with its marks through an encoder into a vector, by attention, and the relation from the vector.

    Zhou et al., 2016 (ACL, P16-2034): words, the marks among them, a bidirectional LSTM, its directions added,
    `α = softmax(wᵀ tanh(H))`, `h* = tanh(H αᵀ)`, softmax. The encoder "self_attention" reads the words with their
    distances to both entities instead.
    With `loss: ranking` and `no_relation: Other` the labels are trained as those of dos Santos et al., 2015 (arXiv
    1504.06580) are; probabilities are then the softmax of the scores, divided by the temperature.
    Differs from the paper: by the settings `position_dim`, `entities`, `word_dropout`, `loss` and `no_relation`, which
    it does not have.

    Args:
        config: `RelationConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer` whose first words are those of the marks, as `learn_tokenizer` makes it; without
            one the model reads ids only.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `text` int32 (B, T), padded with 0; the marks are the ids 4 to 7.

    Returns:
        logits (B, C).

    Raises:
        ValueError: a tokenizer that has other words in the places of the marks.

    Example:
        model = keras_attention.zoo.load("relate_attention")
        model.relate("The <e1>burst</e1> has been caused by water hammer <e2>pressure</e2>.").output
    """

    family, task, verb = "relation", "relation", "relate"
    config_class = RelationConfig

    def build_network(self):
        config, policy = self.config, self.dtype_policy
        if self.tokenizer is not None and [self.tokenizer.encode(one) for one in MARK_WORDS] != [
            [one] for one in MARK_IDS
        ]:
            raise ValueError(
                "The tokenizer does not have the marks <e1>, </e1>, <e2> and </e2> as its first words. Make one with "
                "RelationModel.learn_tokenizer."
            )
        width, self.positions = config.embedding_dim, None
        if config.position_dim:
            self.positions = RelativePositions(
                config.position_dim, config.position_range, dtype=policy, name="positions"
            )
            self.positions.build((None, None, 2))
            width += 2 * config.position_dim
        self.encoder = _ENCODERS[config.encoder](config, dtype=policy, name="encoder")
        self.encoder.build((None, None, width))
        self.state_dropout = keras.layers.Dropout(config.encoder_dropout, dtype=policy, name="state_dropout")
        self.word_seed = keras.random.SeedGenerator(name="word_seed")
        self.pooling = AttentivePooling(None, dtype=policy, name="pooling")
        self.pooling.build((None, None, config.units))
        return config.units + (2 * (config.units + width) if config.entities else 0)

    @property
    def without_score(self):
        """The place of `no_relation` among the labels, or None."""
        name, labels = self.config.no_relation, self.config.labels
        return labels.index(name) if name else None

    def build_output(self, width):
        scored = len(self.config.labels) - (self.without_score is not None)
        self.output_layer = keras.layers.Dense(scored, dtype=self.dtype_policy, name="output")
        self.output_layer.build((None, width))

    @classmethod
    def learn_tokenizer(cls, examples, kind, vocabulary_size, **options):
        """A tokenizer of words, with the marks in front; see `TaskModel.learn_tokenizer`.

        Raises:
            ValueError: another kind than "word", which has no place for the marks.
        """
        if kind != "word":
            raise ValueError(f"The marks of the entities are words. Received the tokenizer {kind!r}; set it to 'word'.")
        texts = (reserve_marks(example["text"]) for example in examples)
        learnt = WordTokenizer.train(texts, vocabulary_size, **options)
        words = learnt.tokens(range(4, learnt.vocabulary_size))
        kept = [word for word in words if word not in MARK_WORDS]
        rules = {name: options[name] for name in ("lowercase", "mask_digits") if name in options}
        return WordTokenizer.from_words([*MARK_WORDS, *kept], **rules)

    def relate(self, inputs, **options):
        """Says how the two entities of a sentence belong together.

        Args:
            inputs: str with each of <e1>, </e1>, <e2>, </e2> once, or a list of such str.
            n_best: int > 0. How many labels, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the inputs: `output` is the label, such as
            "Cause-Effect(e2,e1)", `score` its probability, `extra["probabilities"]` has that of each label.

        Raises:
            ValueError: a mark is missing, comes twice, overlaps the other entity, or has no word inside.
            TypeError, ValueError: see `run`.
        """
        return self.run(inputs, **options)

    # Data

    def words_of(self, column, value):
        split_at_marks(value, check_marks(value), self.tokenizer.encode)
        return self.tokenizer.encode(reserve_marks(value))

    def graph_ids(self, column, strings):
        return super().graph_ids(column, graph_reserve_marks(strings))

    # The network

    def read(self, inputs, training=None):
        ids = inputs["text"]
        mask = tf.not_equal(ids, self.pad_id)
        embedded = self.embed(self._some_unknown(ids) if training else ids, training)
        if self.positions is not None:
            starts = tf.stack([tf.equal(ids, MARK_IDS[0]), tf.equal(ids, MARK_IDS[2])], axis=-1)
            embedded = tf.concat([embedded, self.positions(starts)], axis=-1)
        states, looked = self.encoder(embedded, mask=mask, training=training)
        states = self.state_dropout(states, training=training)
        vector, weights = self.pooling(states, mask=mask, return_attention_scores=True, training=training)
        vector = tf.tanh(vector)
        if self.config.entities:
            for place in (0, 2):
                inside = _between(ids, *MARK_IDS[place : place + 2])
                vector = tf.concat(
                    [vector, tf.tanh(masked_mean(states, inside)), masked_mean(embedded, inside)], axis=-1
                )
        found = {"words": weights}
        return vector, found if looked is None else {**found, "encoder": looked}

    def label_logits(self, vector):
        scores, place = self.output_layer(vector), self.without_score
        if place is None:
            return scores
        return tf.concat([scores[:, :place], tf.zeros_like(scores[:, :1]), scores[:, place:]], axis=1)

    def example_losses(self, logits, places, training):
        if self.config.loss == "ranking":
            return ranking_loss(logits * self.config.temperature, places, self.without_score)
        return super().example_losses(logits, places, training)

    def _some_unknown(self, ids):
        """Some of the words as unknown ones, no padding and no mark."""
        if not self.config.word_dropout:
            return ids
        drawn = keras.random.uniform(tf.shape(ids), seed=self.word_seed) < self.config.word_dropout
        return tf.where(tf.logical_and(drawn, ids > MARK_IDS[-1]), tf.ones_like(ids), ids)

    def attention_maps(self, ids, weights):
        """The row of "words" is what the label was read from; "encoder", of self-attention, has all its heads."""
        words = shown(self.tokenizer.tokens(ids["text"]))
        size = len(words)
        rows = [weights["words"][None, :size]] if "words" in weights else []
        maps = [AttentionMap("words", "pooling", "attentive", one, ["label"], words) for one in rows]
        if "encoder" in weights:
            heads = np.reshape(
                weights["encoder"], (self.config.num_layers, self.config.num_heads, *weights["encoder"].shape[1:])
            )
            axes = ("layer", "head")
            own = heads[..., :size, :size]
            maps.append(AttentionMap("encoder", "encoder", "self_attention", own, words, words, axes))
        return maps

    # Export

    def trial_inputs(self):
        return [
            {"text": "<e1>One</e1> of <e2>two</e2>."},
            {"text": "A somewhat longer <e2>text</e2>, with more <e1>words</e1>."},
        ]

    def random_ids(self, length, random):
        words = random.integers(MARK_IDS[-1] + 1, self.config.vocabulary_size, length + 2).tolist()
        (first, second), (one, two) = MARK_IDS[:2], MARK_IDS[2:]
        return {"text": [first, words[0], second, *words[2:], one, words[1], two]}


def _between(ids, opened, closed):
    """bool (B, T): the words behind one mark and before another; none where a mark is missing."""
    begun = tf.cumsum(tf.cast(tf.equal(ids, opened), tf.int32), axis=1)
    ended = tf.cumsum(tf.cast(tf.equal(ids, closed), tf.int32), axis=1)
    closes = tf.reduce_max(ended, axis=1, keepdims=True) > 0
    return (begun > ended) & closes & tf.not_equal(ids, opened) & tf.not_equal(ids, 0)


def _lstm(config, **options):
    return AddedDirections(config.units, config.num_layers, config.directions, config.encoder_dropout, **options)


def _self_attention(config, **options):
    return SelfAttentionEncoder(config.units, config.num_layers, config.num_heads, config.encoder_dropout, **options)


_ENCODERS = {"lstm": _lstm, "self_attention": _self_attention}

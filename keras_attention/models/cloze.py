"""Cloze questions: which of several words of a document stands in the gap of a query."""

from __future__ import annotations

import re

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import AttentionOverAttention, LuongAttention, sum_attention
from keras_attention.maps import AttentionMap
from keras_attention.models.cloze_config import ClozeConfig
from keras_attention.models.embeddings import make_embedding
from keras_attention.models.open_vocabulary import graph_open_ids, open_ids
from keras_attention.models.prediction import Prediction
from keras_attention.models.recurrent_encoder import RecurrentEncoder
from keras_attention.models.search_options import check_range
from keras_attention.models.sequences import budget_batches, pad_rows
from keras_attention.models.word_model import WordModel

__all__ = ["ClozeModel"]

_BLANK = "XXXXX"
_DASHES, _GAPS = "--+", r"__+|X{5,}"
_TINY = 1e-9


@keras.saving.register_keras_serializable("keras_attention")
class ClozeModel(WordModel):
    """A document, a query with a gap, and candidates → the candidate that belongs in the gap.

    Cui et al., 2017 (arXiv 1607.04423), section 3: embeddings, a bidirectional GRU over the document and another over
    the query, `layers.AttentionOverAttention` between their states, and `layers.sum_attention`: a candidate is as
    likely as the places together where it stands in the document; the loss is `−log P(answer)`. With `attention: sum`
    it is the attention sum reader of Kadlec et al., 2016 (arXiv 1603.01547): one attention from the last states of the
    query.

    A word out of the vocabulary is told from others by a number that is made of its spelling, so that names that the
    training never saw can be answers; such words share `config.unknown_rows` embeddings.

    Differs from the papers: no re-ranking of the best candidates by language models; what is reported are the shares of
    the candidates, which sum to 1.

    Args:
        config: `ClozeConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer`; without one the model reads ids only.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `document` int32 (B, Td), `query` (B, Tq) and `candidates` (B, C), each padded with 0. An id of
            the size of the vocabulary or above is a word that is out of it.

    Returns:
        logits (B, C): the logarithms of the probabilities; very low on padding.

    Example:
        model = keras_attention.zoo.load("cloze_aoa")
        model.answer("Tom had a dog. Ann had a cat.", "The ___ of Ann slept.", ["dog", "cat"]).output
    """

    family, task, verb = "cloze", "cloze", "answer"
    columns, input_columns = ("document", "query", "candidates", "answer"), 3
    text_columns = ("document", "query")
    counted = "examples"
    config_class = ClozeConfig

    def __init__(self, config, tokenizer=None, **kwargs):
        super().__init__(config, tokenizer, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.build_embedding()
        self.unknown = make_embedding("trained", config.unknown_rows, config.embedding_dim, policy, "unknown_embedding")
        self.dropout = keras.layers.Dropout(config.dropout, dtype=policy, name="dropout")
        self.encoders = {}
        for name in ("document", "query"):
            encoder = RecurrentEncoder(config.cell, config.units, dtype=policy, name=f"{name}_encoder")
            encoder.build((None, None, config.embedding_dim))
            self.encoders[name] = encoder
        states = (None, None, config.units)
        if config.attention == "sum":
            self.attention = LuongAttention(score="dot", dtype=policy, name="attention")
        else:
            self.attention = AttentionOverAttention(dtype=policy, name="attention")
        self.attention.build([states, states])
        self.built = True
        object.__setattr__(self, "_look", None)  # past Keras, which would save the function with the model

    # Data

    @classmethod
    def learn_tokenizer(cls, examples, kind, vocabulary_size, **options):
        """As that of all models, from the texts as this one reads them; each document once."""
        texts = dict.fromkeys(_cleaned(example[column]) for example in examples for column in cls.text_columns)
        named = [dict.fromkeys(cls.text_columns, "") | {"document": text} for text in texts]
        return super().learn_tokenizer(named, kind, vocabulary_size, **options)

    def as_example(self, value, place=None):
        """As that of all models; the candidates may be a list."""
        if isinstance(value, dict) and isinstance(value.get("candidates"), (list, tuple)):
            value = {**value, "candidates": self.as_text("candidates", value["candidates"])}
        return super().as_example(value, place)

    def as_text(self, column, value):
        return "|".join(map(str, value)) if isinstance(value, (list, tuple)) else value

    def vectorize(self, example):
        """The ids of each column that the example has; of the answer its place among the candidates, from 1.

        Raises:
            ValueError: a column without a word, or longer than `config.max_length`; a query without a gap; a candidate
                that is not one word; candidates of which none is in the document; an answer that is no candidate, or
                not in the document.
        """
        self.check_tokenizer()
        found = {column: self.ids_of(example[column]) for column in self.text_columns if column in example}
        for column, ids in found.items():
            self.check_length(column, len(ids), example[column])
        if "query" in found and _BLANK not in _cleaned(example["query"]).split():
            raise ValueError(f"The query has no gap. Write {_BLANK} or ___ for the word that is asked for.")
        if "candidates" in example:
            names = self.candidates_of(example["candidates"])
            found["candidates"] = [self._one_word(name) for name in names]
            if "document" in found and not set(found["candidates"]) & set(found["document"]):
                raise ValueError(
                    f"None of the candidates {', '.join(names)[:100]} is in the document. Expected words that stand in "
                    "it."
                )
            if "answer" in example:
                found["answer"] = [self._place(example["answer"], names, found)]
        return found

    def ids_of(self, text: str) -> list[int]:
        """The ids of the words of a text; above the vocabulary those of words that are out of it."""
        return open_ids(self.tokenizer, _cleaned(text))

    @staticmethod
    def candidates_of(text) -> list[str]:
        """The candidates of a column: words with | between them, or a list."""
        names = text.split("|") if isinstance(text, str) else [*text]
        names = [name.strip() for name in names]
        if len(names) < 2 or "" in names or len(set(names)) != len(names):
            raise ValueError(
                f"Expected at least two candidates, each once, with | between them. Received {'|'.join(names)[:100]!r}."
            )
        return names

    def _one_word(self, name: str) -> int:
        ids = self.ids_of(name)
        if len(ids) != 1:
            raise ValueError(
                f"The candidate {name!r} has {len(ids)} words. Expected one word, as it stands in the text."
            )
        return ids[0]

    def _place(self, answer, names, found) -> int:
        if answer not in names:
            raise ValueError(f"The answer {answer!r} is none of the candidates {', '.join(names)[:100]}.")
        place = names.index(answer)
        if found["candidates"][place] not in found.get("document", found["candidates"]):
            raise ValueError(f"The answer {answer!r} is not in the document. Expected a word that stands in it.")
        return 1 + place

    # The network

    def embed(self, ids, training=None):
        """ids (B, T) → (B, T, E)."""
        size = self.config.vocabulary_size
        known = self.embedding(tf.minimum(ids, size - 1))
        shared = self.unknown(tf.math.floormod(tf.maximum(ids - size, 0), self.config.unknown_rows))
        return self.embedding_dropout(tf.where(ids[..., None] < size, known, shared), training=training)

    def look(self, inputs, training=None):
        """Logits (B, C), and the weights that were used: name → (B, …)."""
        states, last, masks = {}, {}, {}
        for name, encoder in self.encoders.items():
            masks[name] = inputs[name] != self.pad_id
            values, last[name] = encoder(self.embed(inputs[name], training), mask=masks[name], training=training)
            states[name] = self.dropout(values, training=training)
        if self.config.attention == "sum":
            query = self.dropout(last["query"][0][0], training=training)[:, None]
            _, weights = self.attention(
                [query, states["document"]], mask=[None, masks["document"]], return_attention_scores=True
            )
            weights = {"document": weights[:, 0]}
        else:
            weights, alpha, beta = self.attention(
                [states["document"], states["query"]],
                mask=[masks["document"], masks["query"]],
                return_attention_scores=True,
            )
            weights = {"document": weights, "query_words": alpha, "query": beta}
        candidates = inputs["candidates"]
        probabilities = tf.cast(sum_attention(weights["document"], inputs["document"], candidates), tf.float32)
        logits = tf.math.log(probabilities + _TINY) / self.config.temperature
        return tf.where(candidates != self.pad_id, logits, -1e9), weights

    def call(self, inputs, training=None):
        return self.look(inputs, training)[0]

    def loss_terms(self, batch, training):
        """The sum of the loss over the examples, and their number: two float32 scalars."""
        return self.loss_from_logits(self(batch, training=training), batch["answer"], training)

    def loss_from_logits(self, logits, answer, training=False):
        """As `loss_terms`, from the logits (B, C) that `call` returned, and the answers (B, 1), from 1; 0 is none."""
        answer = tf.reshape(answer, [-1])
        weight = tf.cast(answer > 0, tf.float32)
        chosen = tf.gather(logits, tf.maximum(answer - 1, 0), axis=1, batch_dims=1)
        return -tf.reduce_sum(chosen * self.config.temperature * weight), tf.reduce_sum(weight)

    # Predictions

    def answer(self, document, query=None, candidates=None, **options):
        """Says which candidate belongs in the gap of a query.

        Args:
            document: str. Without `query` and `candidates`, a dict of "document", "query" and "candidates", or a list
                of such dicts.
            query: str, with XXXXX or ___ for the word that is asked for.
            candidates: list of str, or a str with | between them; words of the document.
            n_best: int > 0. How many candidates, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the dicts: `output` is the candidate, `score` its share of
            the probability of all, which `extra["probabilities"]` has for each.

        Raises:
            TypeError, ValueError: see `run`.
        """
        if query is not None or candidates is not None:
            document = {"document": document, "query": query, "candidates": candidates}
        return self.run(document, **options)

    def predict_examples(self, examples, n_best=1, attention=True, batch_tokens=8192):
        """Checked examples to predictions; see `answer`."""
        check_range("n_best", n_best, 1, 2**31 - 1)
        check_range("batch_tokens", batch_tokens, 1, 2**31 - 1)
        inputs = self.columns[:-1]
        rows = self.rows_of(examples, lambda one: self.vectorize({name: one[name] for name in inputs}))
        predictions: list = [None] * len(rows)
        for batch in budget_batches([sum(map(len, row.values())) for row in rows], batch_tokens):
            padded = {name: tf.constant(pad_rows([rows[place][name] for place in batch])) for name in inputs}
            logits, weights = self._look_function()(padded)
            shares = tf.nn.softmax(logits).numpy()
            weights = {name: value.numpy() for name, value in weights.items()} if attention else {}
            for place, row in enumerate(batch):
                own = {name: value[place] for name, value in weights.items()}
                maps = self._maps(examples[row], own) if attention else []
                predictions[row] = self._prediction(examples[row], shares[place], maps, n_best)
        return predictions

    def _look_function(self):
        if self._look is None:
            spec = {name: tf.TensorSpec([None, None], tf.int32) for name in self.columns[:-1]}
            object.__setattr__(self, "_look", tf.function(self.look, input_signature=[spec]))
        return self._look

    def _prediction(self, example, shares, maps, n_best):
        names = self.candidates_of(example["candidates"])
        extra = {"probabilities": {name: float(one) for name, one in zip(names, shares, strict=False)}}
        order = np.argsort(-shares[: len(names)], kind="stable")[:n_best]
        first, *others = [Prediction(names[one], float(shares[one]), maps, extra=extra) for one in order]
        return Prediction(first.output, first.score, maps, others, extra)

    def _maps(self, example, weights):
        """What the whole query looks at; and with attention over attention what each of its words looks at, and how
        far each is trusted.
        """
        document, query = (self.tokenizer.words(_cleaned(example[name])) for name in self.text_columns)
        kind = self.config.attention
        found = [
            AttentionMap("document", "attention", kind, weights["document"][None, : len(document)], ["gap"], document)
        ]
        if "query" in weights:
            alpha = weights["query_words"][: len(query), : len(document)]
            found.append(AttentionMap("query_words", "attention", kind, alpha, query, document))
            found.append(
                AttentionMap("query", "attention", kind, weights["query"][None, : len(query)], ["trust"], query)
            )
        return found

    # Export

    def serving_functions(self, batch_size=None):
        """`ids`: `document`, `query`, `candidates` → `probabilities` (B, C), `label` int32 (B,), the place of the best
        candidate from 0, and the weights, `attention_document` and others. `text`: strings, the candidates with |
        between them, and the name of the best candidate out too.
        """
        inputs = self.columns[:-1]

        def found(padded):
            logits, weights = self.look(padded)
            label = tf.argmax(logits, axis=-1, output_type=tf.int32)
            maps = {f"attention_{name}": value for name, value in weights.items()}
            return {"probabilities": tf.nn.softmax(logits), "label": label, **maps}

        @tf.function(input_signature=[tf.TensorSpec([batch_size, None], tf.int32, name=name) for name in inputs])
        def ids(*columns):
            return found(dict(zip(inputs, columns, strict=True)))

        functions = {"ids": ids}
        if self.tokenizer is not None:

            @tf.function(input_signature=[tf.TensorSpec([batch_size], tf.string, name=name) for name in inputs])
            def text(*columns):
                padded = {name: self._graph_ids(one) for name, one in zip(inputs[:2], columns[:2], strict=True)}
                names = tf.strings.split(columns[2], "|")
                first = self._graph_ids(names.values)[:, :1]  # of a candidate of several words the first
                padded["candidates"] = tf.squeeze(names.with_values(first).to_tensor(), -1)
                outputs = found(padded)
                name = tf.gather(tf.strings.strip(names.to_tensor()), outputs["label"], axis=1, batch_dims=1)
                return {"text": name, **outputs, **{f"{key}_ids": one for key, one in padded.items()}}

            functions["text"] = text
        return functions

    def _graph_ids(self, strings):
        """`ids_of` in the graph: string (B,) → int32 (B, T), padded with 0."""
        strings = tf.strings.regex_replace(strings, _DASHES, " — ")
        strings = tf.strings.regex_replace(strings, _GAPS, f" {_BLANK} ")
        return graph_open_ids(self.tokenizer, strings).to_tensor(self.pad_id)

    def random_ids(self, length, random):
        high = self.config.vocabulary_size + 9
        document = random.integers(4, high, length + 3).tolist()
        return {
            "document": document,
            "query": random.integers(4, high, length).tolist(),
            "candidates": [*dict.fromkeys(document[:2])],
        }

    def output_loss(self, inputs, outputs):
        logits = self._look_function()({name: tf.constant(value) for name, value in inputs.items()})[0]
        chosen = tf.constant(outputs["label"])
        return float(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=chosen, logits=logits)))

    def sidecar(self):
        return {"special_ids": {"pad": self.pad_id}, "max_length": self.config.max_length, "blank": _BLANK}

    def trial_inputs(self):
        return [
            {"document": "One and two.", "query": f"{_BLANK} and two.", "candidates": "one|two"},
            {"document": "A longer text, with more words.", "query": f"A {_BLANK}.", "candidates": "text|words|more"},
        ]


def _cleaned(text: str) -> str:
    """A text with its dashes as words of their own, and gaps of any spelling as `XXXXX`."""
    return re.sub(_GAPS, f" {_BLANK} ", re.sub(_DASHES, " — ", text))

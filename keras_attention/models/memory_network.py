"""Question answering over a story: an end-to-end memory network that looks at its sentences several times over."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_attention.layers import MemoryAttention
from keras_attention.maps import AttentionMap
from keras_attention.models.label_model import LabelModel
from keras_attention.models.memory_network_config import MemoryNetworkConfig
from keras_attention.models.sentence_split import split_sentences
from keras_attention.text.tokenizers import tokenizer_class

__all__ = ["MemoryNetworkModel"]

_ENDS = (".", "!", "?")


@keras.saving.register_keras_serializable("keras_attention")
class MemoryNetworkModel(LabelModel):
    """A story and a question → an answer, one of those that the training had.

    Sukhbaatar et al., 2015 (arXiv 1503.08895), sections 2 and 4: `layers.MemoryAttention` over the last
    `config.max_memories` sentences, the logits of the answer `W u` from the last state. With `tying: adjacent` W is the
    last embedding: an answer that is one word of the vocabulary has that word's row, any other a row of its own.

    Linear start, section 4.2: for the first `config.linear_start_steps` batches of training the hops have no softmax,
    and no attention is reported. The batches are counted in a weight, so that a checkpoint goes on where it was.

    Differs from the paper: the softmax of the answer is over the answers alone, not over all words; the linear start
    ends after a number of batches, not when a validation says so; and what `MemoryAttention` says of itself.

    Args:
        config: `MemoryNetworkConfig`, or a dict of its fields.
        tokenizer: `text.WordTokenizer`; without one the model reads ids only, and every answer has a row of its own.
        dtype: dtype or policy, such as "mixed_bfloat16".

    Call arguments:
        inputs: dict of `story` int32 (B, T), padded with 0, the id `sentence_end` behind each sentence; and `question`
            int32 (B, Tq).

    Returns:
        logits (B, C).

    Example:
        model = keras_attention.zoo.load("qa_memn2n")
        model.answer("Mary went to the kitchen. John went to the garden.", "Where is Mary?").output
    """

    family, task, verb = "memory_question_answering", "question_answering", "answer"
    columns, input_columns = ("story", "question", "answer"), 2
    text_columns = ("story", "question", "answer")
    config_class = MemoryNetworkConfig
    sentence_end = 3  # the id of `tokenizer.end_id`, which is that of no word

    # Building

    def build_embedding(self):
        self.embedding = None  # those of the hops

    def build_network(self):
        config = self.config
        self.memory = MemoryAttention(
            config.vocabulary_size + len(config.labels),
            config.embedding_dim,
            hops=config.hops,
            tying=config.tying,
            position_encoding=config.position_encoding,
            position_length=config.position_length or None,
            temporal_encoding=config.temporal_encoding,
            max_memories=config.max_memories,
            time_noise=config.time_noise,
            linear_start=config.linear_start_steps > 0,
            dtype=self.dtype_policy,
            name="memory",
        )
        self.memory.build()
        whole = {"dtype": "int32", "initializer": "zeros", "trainable": False, "autocast": False}
        self.step = None
        if config.linear_start_steps:  # of a mirrored variable every replica writes the same
            self.step = self.add_weight(name="step", shape=(), aggregation="only_first_replica", **whole)
        return config.embedding_dim

    def build_output(self, width):
        self.answer_rows = self.add_weight(
            name="answer_rows", shape=(len(self.config.labels),), dtype="int32", initializer="zeros", trainable=False,
            autocast=False,
        )  # fmt: skip
        self.answer_rows.assign(self._answer_rows())

    def _answer_rows(self) -> np.ndarray:
        """The row of each answer among the embeddings: int32 (C,)."""
        rows, taken = [], set()
        for place, label in enumerate(self.config.labels):
            own = self.tokenizer.encode(label) if self.tokenizer is not None else []
            is_word = len(own) == 1 and own[0] > self.sentence_end and own[0] not in taken
            rows.append(own[0] if is_word else self.config.vocabulary_size + place)
            taken.add(rows[-1])
        return np.array(rows, np.int32)

    # Data

    @classmethod
    def learn_tokenizer(cls, examples, kind, vocabulary_size, **options):
        """As that of all models; the ends of sentences are always among its words."""
        texts = (
            text
            for example in examples
            for text in (cls._joined(example["story"]), example["question"], example["answer"], " ".join(_ENDS))
        )
        return tokenizer_class(kind).train(texts, vocabulary_size, **options)

    def as_example(self, value, place=None):
        """As that of all models; the story may be a list of sentences."""
        if isinstance(value, dict) and isinstance(value.get("story"), (list, tuple)):
            where = "" if place is None else f" (input {place + 1})"
            for number, sentence in enumerate(value["story"], start=1):
                if not isinstance(sentence, str):
                    raise TypeError(
                        f"The story must be text, or a list of sentences. Received {type(sentence).__name__} as "
                        f"sentence {number}{where}."
                    )
            value = {**value, "story": self._joined(value["story"])}
        return super().as_example(value, place)

    @staticmethod
    def _joined(story) -> str:
        return story if isinstance(story, str) else " ".join(f"{sentence} ." for sentence in story)

    def as_text(self, column, value):
        return self._joined(value) if column == "story" else value

    def words_of(self, column, value):
        """Of a story the last sentences, each with `sentence_end` behind it; of a question the words alone."""
        end = [self.sentence_end] if column == "story" else []
        return [index for one in self._sentences(column, value) for index in (*(index for _, index in one), *end)]

    def _sentences(self, column, value) -> list[list[tuple[str, int]]]:
        """The words of each sentence that is read, with their ids and without its end."""
        ends, sentences = self._end_ids(), [[]]
        text = self.as_text(column, value)
        for word, index in zip(self.tokenizer.words(text), self.tokenizer.encode(text), strict=True):
            if index not in ends:
                sentences[-1].append((word, index))
            elif sentences[-1]:
                sentences.append([])
        sentences = [one for one in sentences if one]
        return sentences[-self.config.max_memories :] if column == "story" else sentences

    def _end_ids(self) -> set[int]:
        """Ids of the words that end a sentence, of those that the tokenizer knows."""
        return {index for end in _ENDS for index in self.tokenizer.encode(end)} - {self.tokenizer.unk_id}

    def graph_ids(self, column, strings):
        ids = super().graph_ids(column, strings)
        is_end = tf.reduce_any(ids[..., None] == tf.constant(sorted(self._end_ids()), tf.int32), axis=-1)
        return tf.where(is_end, self.sentence_end if column == "story" else self.pad_id, ids)

    # The network

    def read(self, inputs, training=None):
        if training and self.step is not None:
            self.memory.linear_start.assign(self.step.value < self.config.linear_start_steps)
            self.step.assign(self.step.value + 1)
        story, question = inputs["story"], inputs["question"]
        memories = split_sentences(story, [self.sentence_end], self.config.max_memories, keep_ends=False)
        question = tf.where(question == self.sentence_end, self.pad_id, question)
        state, weights = self.memory([question, memories], return_attention_scores=True, training=training)
        return state, {"hops": weights}

    def label_logits(self, vector):
        return tf.gather(self.memory.logits(vector), tf.convert_to_tensor(self.answer_rows), axis=1)

    # Predictions

    def answer(self, story, question=None, **options):
        """Answers a question about a story, or several of them.

        Args:
            story: str, in which sentences end with . ! or ?; or a list of str, the sentences. Without `question`, a
                dict with "story" and "question", or a list of such dicts.
            question: str.
            n_best: int > 0. How many answers, best first; the further ones are `alternatives`. Default 1.
            attention: bool. Whether to report what was looked at. Default True.
            batch_tokens: int > 0. How many words go through the network at once.

        Returns:
            `Prediction`, or a list of them in the order of the dicts: `output` is the answer, `score` its probability;
            `extra` has "probabilities", that of each answer, and "unknown_words", those that the training never had.

        Raises:
            TypeError, ValueError: see `run`.
        """
        return self.run(story if question is None else {"story": story, "question": question}, **options)

    def predict_examples(self, examples, n_best=1, attention=True, batch_tokens=8192):
        """As that of all label models; with the words that are not known, and with the words as written in maps."""
        found = super().predict_examples(examples, n_best, attention, batch_tokens)
        return [self._with_words(one, example) for one, example in zip(found, examples, strict=True)]

    def _with_words(self, prediction, example):
        read = {name: self._sentences(name, example[name]) for name in ("story", "question")}
        pairs = [pair for sentences in read.values() for one in sentences for pair in one]
        unknown = dict.fromkeys(word for word, index in pairs if index == self.tokenizer.unk_id)
        sentences, questions = ([" ".join(word for word, _ in one) for one in each] for each in read.values())
        changes = {
            "extra": {**prediction.extra, "unknown_words": list(unknown)},
            "attention": [
                dataclasses.replace(one, rows=[" ".join(questions)], columns=sentences) for one in prediction.attention
            ],
        }
        others = [dataclasses.replace(one, **changes) for one in prediction.alternatives]
        return dataclasses.replace(prediction, **changes, alternatives=others)

    def attention_maps(self, ids, weights):
        """One map with an axis of hops: the question looks at each sentence; none while the hops have no softmax."""
        if bool(self.memory.linear_start.numpy()):
            return []
        count = ids["story"].count(self.sentence_end)
        sentences = [f"sentence {number}" for number in range(1, count + 1)]
        return [
            AttentionMap(
                "hops", "memory", "memory", weights["hops"][:, None, :count], ["question"], sentences, ("hop",)
            )
        ]

    # Export

    def random_ids(self, length, random):
        words = random.integers(4, self.config.vocabulary_size, length).tolist()
        story = [index for word in words for index in ((word, self.sentence_end) if word % 3 == 0 else (word,))]
        return {"story": story, "question": random.integers(4, self.config.vocabulary_size, 3).tolist()}

    def sidecar(self):
        found = super().sidecar()
        found["special_ids"]["sentence_end"] = self.sentence_end
        return {**found, "max_memories": self.config.max_memories}

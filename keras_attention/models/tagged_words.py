"""`TaggedWords`: how sentences and their tags become ids."""

from __future__ import annotations

import tensorflow as tf

from keras_attention.models.predicate_marks import graph_predicate, marked_predicate
from keras_attention.models.word_features import (
    FORMS,
    form_ids,
    graph_form_ids,
    graph_surface_words,
    surface_words,
    written_form,
)
from keras_attention.models.word_model import WordModel
from keras_attention.text import WordTokenizer

__all__ = ["TaggedWords"]


class TaggedWords(WordModel):
    """The data side of `TaggingModel`: what it learns from examples, and what it reads."""

    columns = ("words", "tags")
    text_columns = ("words",)

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns of ids that the network reads, each one id a word."""
        return ("words", *FORMS, *(("predicate",) if self.config.has_predicate else ()))

    @classmethod
    def learn_tokenizer(cls, examples, kind, vocabulary_size, leave_out=(), **options):
        """The words of the examples, each sentence once, however many predicates it has.

        Args:
            leave_out: list of str. Words that have one of these as their tag, as the type of their span, or as their
                part of speech ("pos", where the examples have it) are no words of the vocabulary, such as names of
                persons; nor is any that begins with "@", the name of a user.
            kind, vocabulary_size, options: see `TaskModel`; only "word" gives an id to each word.
        """
        if kind != "word":
            raise ValueError(f"`tokenizer.kind` is {kind!r}. A tagger needs one id a word: set it to 'word'.")
        left_out, sentences = set(leave_out), {}
        for example in examples:
            pos = example.get("pos", example["tags"])
            marks = zip(example["words"], example["tags"], pos, strict=True)
            kept = [word for word, tag, part in marks if not {tag, tag[2:], part} & left_out and word[0] != "@"]
            sentences.setdefault(tuple(example["words"]), kept)
        return WordTokenizer.train(sentences.values(), vocabulary_size, **options)

    @classmethod
    def learnt_settings(cls, examples, settings):
        """The tags: "O", then the others sorted; of spans both B-X and I-X of each type."""
        found = {tag for example in examples for tag in example["tags"]}
        if settings.get("scheme", "none") != "none":
            kinds = {tag[2:] for tag in found if tag[:2] in ("B-", "I-")}
            found |= {f"{prefix}-{kind}" for prefix in "BI" for kind in kinds} | {"O"}
        return {"labels": sorted(found, key=lambda tag: (tag != "O", tag[2:] if "-" in tag else tag, tag))}

    def as_example(self, value, place=None):
        """A text, a list of words, or a dict of `words` and perhaps `predicate`, as such a dict, checked."""
        where = "" if place is None else f" (input {place + 1})"
        example = value if isinstance(value, dict) else {"words": value}
        words = example.get("words")
        if isinstance(words, (list, tuple)):
            words = list(words)
        elif not isinstance(words, str):
            raise TypeError(
                f"`{self.verb}` wants text, a list of words, or a dict with one of these under words. Received "
                f"{type(words if isinstance(value, dict) else value).__name__}{where}."
            )
        for one in words if isinstance(words, list) else []:
            if not isinstance(one, str):
                raise TypeError(f"A word must be a str. Received {one!r:.80}{where}.")
            if not one.strip():
                raise ValueError(f"A word is empty: {one!r}{where}. Leave it out.")
        if not words or (isinstance(words, str) and not words.strip()):
            raise ValueError(f"The words are empty{where}. Give at least one word.")
        return {"words": words, **{name: example[name] for name in ("predicate",) if name in example}}

    def vectorize(self, example):
        """The ids of `id_columns`, and of the tags, from 1, where the example has them.

        Raises:
            ValueError: no words, more than `config.max_length`, no predicate where one is needed, an unknown tag, or
                another number of tags than of words.
        """
        words, ids = self.read_words(example)
        if "tags" in example:
            if len(example["tags"]) != len(words):
                raise ValueError(f"There are {len(words)} words and {len(example['tags'])} tags. Give each word one.")
            places = {name: place for place, name in enumerate(self.config.labels, start=1)}
            unknown = [tag for tag in example["tags"] if tag not in places]
            if unknown:
                raise ValueError(
                    f"The tag {unknown[0]!r} is not one that the model has. Expected one of "
                    f"{', '.join(self.config.labels)[:200]}."
                )
            ids["tags"] = [places[tag] for tag in example["tags"]]
        return ids

    def read_words(self, example) -> tuple[list[str], dict[str, list[int]]]:
        """The words of an example, without the marks of a predicate, and the ids of `id_columns`."""
        self.check_tokenizer()
        given = example["words"]
        words = surface_words(given) if isinstance(given, str) else list(given)
        place = example.get("predicate")
        if self.config.has_predicate and place is None:
            words, place = marked_predicate(words)
        self.check_length("text", len(words), given)
        if isinstance(given, str) and place is None:
            forms, ids = words, self.tokenizer.encode(given)
        else:
            forms, ids = [written_form(word) for word in words], self.tokenizer.encode_words(words)
        found = [form_ids(word, self.config.affix_buckets) for word in forms]
        row = {"words": ids, **{name: [one[number] for one in found] for number, name in enumerate(FORMS)}}
        if self.config.has_predicate:
            if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(words):
                raise ValueError(f"`predicate` must be the place of a word, 0 to {len(words) - 1}. Received {place!r}.")
            row["predicate"] = [2 if one == place else 1 for one in range(len(words))]
        return words, row

    def graph_columns(self, strings):
        """`read_words` in a graph: string (B,) → RaggedTensor of string (B, words), and a dict of `id_columns`, each
        int32 (B, T), padded with 0.
        """
        words, ids = graph_surface_words(strings), self.tokenizer.graph_encode(strings)
        found = {"words": ids}
        if self.config.has_predicate:
            kept, found["predicate"] = graph_predicate(words)
            found["words"], words = tf.ragged.boolean_mask(ids, kept), tf.ragged.boolean_mask(words, kept)
        for name, values in graph_form_ids(words.values, self.config.affix_buckets).items():
            found[name] = words.with_values(values)
        return words, {name: found[name].to_tensor(self.pad_id) for name in self.id_columns}

    def trial_inputs(self):
        first, second = ("One [is] enough.", "A somewhat longer text, with more [words].")
        if self.config.has_predicate:
            return [first, second]
        return [text.replace("[", "").replace("]", "") for text in (first, second)]

    def as_text(self, column, value):
        return value if isinstance(value, str) else " ".join(value)

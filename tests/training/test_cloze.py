"""Cloze questions of plain text, with a toy tagger."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.training import make_cloze
from keras_attention.training.cloze import BLANK, split_sentences, split_words
from keras_attention.training.cloze_metrics import evaluate

NOUNS = {"dog", "cat", "tree", "house", "road", "king"}
NAMES = {"Alice", "Tom", "Ann", "Bob"}


def toy_tag(words):
    """Names of the list and nouns of the list; anything else is X."""
    return ["PROPN" if word in NAMES else "NOUN" if word.lower() in NOUNS else "X" for word in words]


TEXT = """
CHAPTER ONE

Alice saw the dog near the tree.  "Where is the cat?" asked Tom -- and
he laughed!

The king went down the road. Mr. Bob met Ann at the house. Ann sat under
the tree with the dog and Tom.
"""


def test_sentences_end_where_a_reader_ends_them():
    assert split_sentences(TEXT) == [
        "Alice saw the dog near the tree.",
        '"Where is the cat?" asked Tom — and he laughed!',
        "The king went down the road.",
        "Mr. Bob met Ann at the house.",
        "Ann sat under the tree with the dog and Tom.",
    ]
    assert split_sentences('He said "Go!" "No." (Then he left.) J. R. ran.\r\n\r\nPART TWO') == [
        'He said "Go!"',
        '"No."',
        "(Then he left.)",
        "J. R. ran.",
    ]
    assert split_sentences("") == split_sentences("\n \n") == []


def test_words_are_those_that_the_tokenizer_tells():
    assert split_words("Isn't it Tom's, here?") == ["Is", "n't", "it", "Tom", "'s", ",", "here", "?"]


def test_a_question_by_hand():
    (name, noun) = make_cloze(TEXT, toy_tag, context=4, candidates=4)
    before = TEXT.split("CHAPTER ONE")[1]
    assert name["document"] == " ".join(split_words(" ".join(split_sentences(before)[:4])))
    assert (name["kind"], noun["kind"]) == ("named_entity", "common_noun")
    words = split_words("Ann sat under the tree with the dog and Tom.")
    for one, kind in ((name, NAMES), (noun, NOUNS)):
        assert one["query"].replace(BLANK, one["answer"]).split() == words
        choices = one["candidates"].split("|")
        assert len(set(choices)) == 4
        assert one["answer"] in choices
        assert set(choices) <= kind
        assert one["answer"] in one["document"].split()
        assert set(choices) <= {*one["document"].split(), *words}
    assert [*make_cloze(TEXT, toy_tag, context=4, candidates=4)] == [name, noun]  # the seed decides
    seeds = [next(make_cloze(TEXT, toy_tag, context=4, candidates=4, seed=seed))["candidates"] for seed in range(20)]
    assert len(set(seeds)) > 3


def test_what_cannot_be_asked_is_not():
    assert [*make_cloze(TEXT, toy_tag, context=4, candidates=7)] == []  # six nouns, four names
    assert [one["kind"] for one in make_cloze(TEXT, toy_tag, ["common_noun"], context=4, candidates=2)] == [
        "common_noun"
    ]
    assert [*make_cloze(TEXT, toy_tag, context=5, candidates=2)] == []  # no sentence is left to ask about
    assert [*make_cloze("The dog ran. A cat saw the cat.", toy_tag, context=1, candidates=2)] == []  # not before
    assert [*make_cloze("The dog saw a cat. A dog met the dog.", toy_tag, context=1, candidates=2)] == []  # twice
    assert len([*make_cloze("The dog saw a cat. A dog ran.", toy_tag, context=1, candidates=2)]) == 1


SENTENCE = st.lists(st.sampled_from([*NOUNS, *NAMES, "saw", "the"]), min_size=1, max_size=7).map(
    lambda words: f"The {' '.join(words)}."
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SENTENCE, max_size=9), st.integers(1, 3), st.integers(2, 4), st.integers(1, 3), st.integers(0, 5))
def test_every_question_has_one_gap_and_one_answer(sentences, context, candidates, step, seed):
    found = [*make_cloze(" ".join(sentences), toy_tag, context=context, candidates=candidates, step=step, seed=seed)]
    assert len(found) <= 2 * max(0, -(-(len(sentences) - context) // step))
    for one in found:
        query, document, choices = one["query"].split(), one["document"].split(), one["candidates"].split("|")
        assert query.count(BLANK) == 1
        assert one["answer"] in document
        assert one["answer"] not in query
        assert choices.count(one["answer"]) == 1
        assert len(choices) == len({choice.lower() for choice in choices}) == candidates
        kind = NAMES if one["kind"] == "named_entity" else NOUNS
        assert set(choices) <= kind & {*document, *query, one["answer"]}
        assert " ".join(document) + " " + one["query"].replace(BLANK, one["answer"]) in " ".join(
            split_words(" ".join(sentences))
        )
        assert len(re.findall(r"\.", one["document"])) == context


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["verb"]}, "Unknown kind 'verb'. Expected some of named_entity, common_noun"),
        ({"context": 0}, "`context` must be at least 1. Received 0"),
        ({"candidates": 1}, "`candidates` must be at least 2. Received 1"),
        ({"step": 0}, "`step` must be at least 1. Received 0"),
        ({"tag": lambda words: ["X"]}, "`tag` gave 1 tags for 8 words: 'Alice saw the dog near the tree .'"),
    ],
)
def test_what_makes_no_sense_is_told(options, message):
    with pytest.raises(ValueError, match=message):
        list(make_cloze(TEXT, **{"tag": toy_tag, **options}))


class Guesser:
    """Answers with the first candidate."""

    task, columns = "cloze", ("document", "query", "candidates", "answer")

    def run(self, examples, attention):
        assert attention is False and all(set(one) == set(self.columns[:-1]) for one in examples)
        from keras_attention.models import Prediction

        return [Prediction(one["candidates"].split("|")[0], 1.0) for one in examples]


def test_accuracy_by_hand():
    examples = [
        {"document": "d", "query": "q", "candidates": "a|b", "answer": answer, "kind": kind}
        for answer, kind in (("a", "x"), ("b", "x"), ("a", "x"), ("b", "y"))
    ]
    scores = evaluate(Guesser(), examples)
    assert (scores["accuracy"], scores["accuracy_y"], scores["examples"]) == (50, 0, 4)
    np.testing.assert_allclose(scores["accuracy_x"], 200 / 3)
    np.testing.assert_allclose(scores["ece"], 50)  # it is always sure, and half the time wrong
    assert "accuracy_x" not in evaluate(Guesser(), [{**examples[0], "kind": "x"}, dict(list(examples[1].items())[:4])])
    with pytest.raises(ValueError, match="There are no examples to evaluate"):
        evaluate(Guesser(), [])

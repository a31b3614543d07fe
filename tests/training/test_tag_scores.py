from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from keras_attention.models import Prediction
from keras_attention.training import scoring
from keras_attention.training.tag_scores import paired_scores, require_scorer, tag_scores


def tags(text):
    return [sentence.split() for sentence in text.split(" / ")]


GOLD = tags("B-A0 B-V B-A1 I-A1 / O B-V B-A0")
FOUND = tags("B-A0 B-V B-A1 O / O B-V B-A0")


class Tagger:
    """Gives the words their tags, last sentence first in the list of answers it knows."""

    task = "tagging"

    def __init__(self, scheme):
        self.config = SimpleNamespace(scheme=scheme)
        self.asked = []

    def run(self, inputs, attention):
        assert attention is False
        self.asked += inputs
        return [Prediction(list(zip(one["words"], FOUND[one["predicate"]], strict=True)), 0.0) for one in inputs]


def examples():
    return [{"words": list("abcd")[: len(one)], "tags": one, "predicate": place} for place, one in enumerate(GOLD)]


@pytest.mark.parametrize(
    ("scheme", "f1"),
    [("none", None), ("bio", 80.0), ("srl", 200 / 3)],  # of 5 spans 4; of 3 roles 2: V is not counted
)
def test_each_scheme_has_its_scores(scheme, f1):
    model = Tagger(scheme)
    scores = scoring.evaluate(model, examples())
    assert scores["accuracy"] == pytest.approx(600 / 7)
    assert scores.get("f1") == (None if f1 is None else pytest.approx(f1))
    assert (scores["task"], scores["examples"]) == ("tagging", 2)
    assert all(set(one) == {"words", "predicate"} for one in model.asked)
    if f1 is not None:
        assert scores["precision"] == scores["recall"] == pytest.approx(f1)
        assert scores["per_type"]["A0"] == 100
        assert scores["per_type"]["A1"] == 0
        assert ("V" in scores["per_type"]) == (scheme == "bio")


def test_what_gold_has_not_is_wrong_but_no_type():
    scores = tag_scores(tags("O B-A"), tags("B-B B-A"), "bio")
    assert scores["precision"] == 50
    assert scores["per_type"] == {"A": 100}


@pytest.mark.parametrize("scheme", ["none", "bio", "srl"])
def test_a_pair_is_compared_by_the_score_of_its_scheme(scheme):
    name = "accuracy" if scheme == "none" else "f1"
    found = paired_scores(GOLD, FOUND, GOLD, scheme, samples=50)
    assert found["a"] == pytest.approx(tag_scores(GOLD, FOUND, scheme)[name])
    assert found["b"] == 100
    assert paired_scores(GOLD, FOUND, FOUND, scheme, samples=20)["p_value"] == 1


def test_a_difference_in_every_sentence_is_no_chance_and_one_in_a_few_is():
    gold, wrong = tags(" / ".join(["B-A O"] * 40)), tags(" / ".join(["O O"] * 40))
    half = [one if place % 2 else other for place, (one, other) in enumerate(zip(gold, wrong, strict=True))]
    assert paired_scores(gold, half, gold, "bio", samples=200)["p_value"] < 0.02
    one_better = [gold[0], *half[1:]]
    assert paired_scores(gold, half, one_better, "bio", samples=200)["p_value"] > 0.1


def test_rows_of_one_sentence_are_drawn_together():
    """The second is better in all rows of one sentence, and worse in some of the other."""
    gold, wrong = tags(" / ".join(["B-A"] * 40)), tags(" / ".join(["O"] * 40))
    first, second = [*wrong[:20], *gold[20:]], [*gold[:32], *wrong[32:]]
    apart = paired_scores(gold, first, second, "srl", samples=400)
    together = paired_scores(gold, first, second, "srl", groups=["one"] * 20 + ["two"] * 20, samples=400)
    assert together["b"] == apart["b"] == pytest.approx(200 * 32 / 72)
    assert apart["p_value"] < 0.1
    assert together["p_value"] > 0.3


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="Unknown scheme 'iob'. Expected one of none, bio, srl"):
        tag_scores(GOLD, FOUND, "iob")
    with pytest.raises(ValueError, match="Sentence 1 has 2 gold tags and 1 predicted"):
        tag_scores([["O", "O"]], [["O"]], "none")
    with pytest.raises(ValueError, match="There are no examples to evaluate"):
        scoring.evaluate(Tagger("bio"), [])


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    with pytest.raises(ImportError, match=r"pip install \"keras-attention-zoo\[eval\]\""):
        require_scorer()

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training.tag_metrics import (
    RELATIONS,
    semeval2010_macro_f1,
    semeval2010_scores,
    span_scores,
    srl_scores,
    token_accuracy,
)


def tags(text):
    return [sentence.split() for sentence in text.split(" / ")]


def counts(scores):
    return scores["correct"], scores["gold"], scores["predicted"]


@pytest.mark.parametrize("scheme", [None, "BIO"])
def test_spans_are_right_when_type_and_ends_are(scheme):
    gold = tags("B-PER I-PER O B-LOC / B-LOC B-LOC O / O O")
    predicted = tags("B-PER I-PER O B-PER / B-LOC I-LOC O / O B-ORG")
    scores = span_scores(gold, predicted, scheme)
    assert counts(scores) == (1, 4, 4)
    assert (scores["precision"], scores["recall"], scores["f1"]) == (25, 25, 25)
    assert scores["per_type"]["PER"] == {
        "precision": 50, "recall": 100, "f1": pytest.approx(200 / 3), "gold": 1, "predicted": 2, "correct": 1
    }  # fmt: skip
    assert counts(scores["per_type"]["LOC"]) == (0, 3, 1)
    assert counts(scores["per_type"]["ORG"]) == (0, 0, 1)


def test_conlleval_takes_spans_without_a_beginning_and_a_scheme_does_not():
    gold, predicted = tags("B-PER I-PER O B-LOC"), tags("I-PER I-PER O I-LOC")
    assert counts(span_scores(gold, predicted)) == (2, 2, 2)
    assert counts(span_scores(gold, predicted, "BIO")) == (0, 2, 0)
    assert counts(span_scores(predicted, predicted, "IOB1")) == (2, 2, 2)


def test_iobes_and_iob1():
    gold = tags("B-PER I-PER E-PER S-LOC O / S-LOC S-LOC")
    predicted = tags("B-PER I-PER E-PER O S-LOC / B-LOC E-LOC")
    for scheme in (None, "IOBES"):
        assert counts(span_scores(gold, predicted, scheme)) == (1, 4, 3)
    gold, predicted = tags("I-PER I-PER B-PER O I-LOC"), tags("I-PER I-PER I-PER O I-LOC")
    for scheme in (None, "IOB1"):
        assert counts(span_scores(gold, predicted, scheme)) == (1, 3, 2)


def test_a_span_does_not_go_on_in_the_next_sentence():
    assert counts(span_scores(tags("O B-PER / I-PER O"), tags("O B-PER / O O"))) == (1, 2, 1)


def test_nothing_to_find_and_nothing_found_gives_0():
    for score in (span_scores, srl_scores):
        assert score([["O"]], [["O"]]) == {
            "precision": 0, "recall": 0, "f1": 0, "gold": 0, "predicted": 0, "correct": 0, "per_type": {}
        }  # fmt: skip


tag = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
sentence = st.lists(st.tuples(tag, tag), min_size=1, max_size=7)


@given(st.lists(sentence, min_size=1, max_size=4))
def test_f1_is_that_of_seqeval(sentences):
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    gold, predicted = ([[pair[side] for pair in one] for one in sentences] for side in (0, 1))
    expected = f1_score(gold, predicted, zero_division=0)
    assert span_scores(gold, predicted)["f1"] == pytest.approx(100 * expected)
    if any(tag[0] == "B" for one in (*gold, *predicted) for tag in one):
        expected = f1_score(gold, predicted, zero_division=0, mode="strict", scheme=IOB2)
        assert span_scores(gold, predicted, "BIO")["f1"] == pytest.approx(100 * expected)


def test_a_missing_seqeval_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics.sequence_labeling", None)
    with pytest.raises(ImportError, match=r'pip install "keras-attention-zoo\[eval\]"'):
        span_scores([["O"]], [["O"]])


def test_the_predicate_is_no_argument():
    gold, predicted = tags("B-A0 B-V B-C-V B-A1 I-A1"), tags("B-A0 B-A1 O B-A1 I-A1")
    scores = srl_scores(gold, predicted)
    assert counts(scores) == (2, 2, 3)
    assert "V" not in scores["per_type"] and "C-V" not in scores["per_type"]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("B-A1 O B-C-A1", "B-A1 O B-C-A1", (1, 1, 1)),  # the pieces are one argument
        ("B-A1 O B-C-A1", "B-A1 O O", (0, 1, 1)),
        ("B-A1 O B-C-A1 I-C-A1", "B-A1 O B-C-A1 O", (0, 1, 1)),
        ("B-A1 B-C-A1 O B-C-A1", "B-A1 B-C-A1 O B-C-A1", (1, 1, 1)),
        ("B-A1 O B-A1", "B-A1 O B-C-A1", (0, 2, 1)),
        ("O O B-A1", "O O B-C-A1", (1, 1, 1)),  # a piece without a head is the argument
        ("B-A1 B-A0 B-A1 B-C-A1", "B-A1 B-A0 B-A1 B-C-A1", (3, 3, 3)),  # it goes on with the latest
        ("B-A1 B-A0 B-R-A0", "B-A1 I-A1 B-R-A0", (1, 3, 2)),
        ("B-A0 I-A1 I-A1", "B-A0 B-A1 I-A1", (2, 2, 2)),
        ("B-A1 / B-A1", "B-A1 / O", (1, 2, 1)),
    ],
)
def test_pieces_of_an_argument_are_right_together(gold, predicted, expected):
    assert counts(srl_scores(tags(gold), tags(predicted))) == expected


def test_token_accuracy_is_that_of_all_words_together():
    assert token_accuracy(tags("A B C / A"), tags("A B A / A")) == 75
    with pytest.raises(ValueError, match="There are no words to score"):
        token_accuracy([], [])


@pytest.mark.parametrize("score", [span_scores, srl_scores, token_accuracy])
def test_what_does_not_fit_is_refused(score):
    with pytest.raises(ValueError, match="as many tagged sentences as gold ones. Received 1 and 2"):
        score([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="Sentence 2 has 1 gold tags and 2 predicted ones"):
        score([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(TypeError, match="Sentence 1 is a str"):
        score(["O"], ["O"])


def test_tags_that_are_none_are_refused():
    with pytest.raises(ValueError, match="'PER' is no tag of the scheme"):
        span_scores([["O"]], [["PER"]])
    with pytest.raises(ValueError, match="'S-PER' is no tag of the scheme BIO. Expected 'O', or one of B, I before"):
        span_scores([["S-PER"]], [["O"]], "BIO")
    with pytest.raises(ValueError, match="'E-A0' is no tag"):
        srl_scores([["E-A0"]], [["O"]])
    with pytest.raises(ValueError, match="Unknown scheme 'BILOU'. Expected one of BIO, IOB1, IOBES, or None"):
        span_scores([["O"]], [["O"]], "BILOU")


# What was true, what was said: 10 examples of two relations and Other, counted by hand below.
HAND = [
    *[("Cause-Effect(e1,e2)", "Cause-Effect(e1,e2)")] * 3,
    ("Cause-Effect(e2,e1)", "Cause-Effect(e1,e2)"),  # the wrong direction
    ("Cause-Effect(e2,e1)", "Other"),
    ("Message-Topic(e1,e2)", "Message-Topic(e1,e2)"),
    ("Message-Topic(e1,e2)", "Cause-Effect(e2,e1)"),
    ("Other", "Message-Topic(e1,e2)"),
    ("Other", "Message-Topic(e2,e1)"),
    ("Other", "Other"),
]


def test_the_official_score_counted_by_hand():
    """Cause-Effect: 3 right of 5 said (1 in the wrong direction, 1 a Message-Topic), of 5 true: P 3/5, R 3/5, F1 3/5.

    Message-Topic: 1 right of 3 said, of 2 true: P 1/3, R 1/2, F1 2/5. The mean of 60 and 40 is 50.
    """
    gold, predicted = zip(*HAND, strict=True)
    scores = semeval2010_scores(gold, predicted)
    assert counts(scores["per_type"]["Cause-Effect"]) == (3, 5, 5)
    assert counts(scores["per_type"]["Message-Topic"]) == (1, 2, 3)
    assert scores["per_type"]["Message-Topic"]["precision"] == pytest.approx(100 / 3)
    assert semeval2010_macro_f1(gold, predicted) == pytest.approx(50)
    assert scores["accuracy"] == 50


def test_a_wrong_direction_is_wrong():
    gold = [label for label in RELATIONS for _ in range(2)]
    swapped = [one.replace("e1,e2", "x").replace("e2,e1", "e1,e2").replace("x", "e2,e1") for one in gold]
    assert semeval2010_macro_f1(gold, gold) == 100
    assert semeval2010_macro_f1(gold, swapped) == 0
    half = [one if number % 2 else other for number, (one, other) in enumerate(zip(gold, swapped, strict=True))]
    assert semeval2010_macro_f1(gold, half) == pytest.approx(50)


def test_other_counts_only_against_the_relations():
    gold = ["Cause-Effect(e1,e2)"] * 2 + ["Other"] * 98
    assert semeval2010_macro_f1(gold, ["Other"] * 100) == 0
    assert semeval2010_macro_f1(gold, ["Cause-Effect(e1,e2)"] * 100) == pytest.approx(100 * 2 * 0.02 / 1.02)
    assert semeval2010_macro_f1(gold, [*gold[:-2], *["Cause-Effect(e2,e1)"] * 2]) == pytest.approx(200 / 3)


def test_the_mean_is_over_all_nine_relations():
    gold = [f"{name}(e1,e2)" for name in dict.fromkeys(RELATIONS.values())]
    assert len(gold) == 9
    for right in (0, 4, 9):
        predicted = [one if number < right else "Other" for number, one in enumerate(gold)]
        assert semeval2010_macro_f1(gold, predicted) == pytest.approx(100 * right / 9)


def test_a_relation_that_gold_does_not_have_is_not_in_the_mean():
    assert semeval2010_macro_f1(["Cause-Effect(e1,e2)"] * 2, ["Cause-Effect(e1,e2)", "Entity-Origin(e1,e2)"]) == (
        pytest.approx(200 / 3)
    )


labels = st.lists(st.tuples(*[st.sampled_from([*RELATIONS, "Other"])] * 2), min_size=1, max_size=40)


@given(labels.filter(lambda pairs: any(one != "Other" for one, _ in pairs)))
def test_the_score_is_that_of_the_confusion_matrix(pairs):
    """The tables of the official scorer: a column of its own for what is right but for its direction."""
    matrix = {}
    for gold, predicted in pairs:
        one, two = (label.split("(")[0] for label in (gold, predicted))
        column = two if gold == predicted or one != two else "xDIRx"
        matrix[one, column] = matrix.get((one, column), 0) + 1
    names = {one for one, _ in matrix} - {"Other"}
    f1 = []
    for name in names:
        right = matrix.get((name, name), 0)
        said = sum(count for (_, column), count in matrix.items() if column == name) + matrix.get((name, "xDIRx"), 0)
        true = sum(count for (row, _), count in matrix.items() if row == name)
        precision, recall = right / said if said else 0, right / true
        f1.append(2 * precision * recall / (precision + recall) if right else 0)
    gold, predicted = zip(*pairs, strict=True)
    assert semeval2010_macro_f1(gold, predicted) == pytest.approx(100 * sum(f1) / len(f1))


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        (["Other"], [], "as many predictions as labels. Received 0 and 1"),
        (["Other"], ["Other"], "no relation but Other in gold"),
        (
            ["Other"],
            ["Cause-Effect"],
            r"Unknown label 'Cause-Effect'. Expected 'Other' or a relation with its direction",
        ),
    ],
)
def test_labels_that_cannot_be_scored_are_refused(gold, predicted, message):
    with pytest.raises(ValueError, match=message):
        semeval2010_macro_f1(gold, predicted)


def test_each_relation_has_two_directions():
    for name in RELATIONS.values():
        assert [one for one, relation in RELATIONS.items() if relation == name] == [f"{name}(e1,e2)", f"{name}(e2,e1)"]
    assert len(RELATIONS) == 18

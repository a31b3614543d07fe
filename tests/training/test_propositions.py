from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training.propositions import read_propositions
from keras_attention.training.readers import BadLines, DataError
from tests.shared_data import shared_data

TEXT = """# sent_id = 1
0\tBush\tNNP\t-\t-\t(A0*\t*
1\tJr.\tNNP\t-\t-\t*)\t*
2\thoped\tVBD\thope\thope.01\t(V*)\t*
3\tto\tTO\t-\t-\t(A1*\t*
4\twin\tVB\twin\twin.01\t*\t(V*)
5\tit\tPRP\t-\t-\t*A1)\t(C-A1*)

0\tYes\tUH\t-\t-
"""


def write(tmp_path, text):
    path = tmp_path / "a.srl"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_predicate_is_an_example(tmp_path):
    first, second = read_propositions(write(tmp_path, TEXT))
    shared = {
        "words": ["Bush", "Jr.", "hoped", "to", "win", "it"],
        "pos": ["NNP", "NNP", "VBD", "TO", "VB", "PRP"],
    }
    tags = ["B-A0", "I-A0", "B-V", "B-A1", "I-A1", "I-A1"]
    assert first == {**shared, "lemma": "hope", "roleset": "hope.01", "predicate": 2, "tags": tags}
    tags = ["O", "O", "O", "O", "B-V", "B-C-A1"]
    assert second == {**shared, "lemma": "win", "roleset": "win.01", "predicate": 4, "tags": tags}


def test_columns_may_stand_elsewhere(tmp_path):
    path = write(tmp_path, "It    -      (A0*)\nrained rain  (V*)\n")
    (one,) = read_propositions(path, columns={"words": 0, "lemma": 1}, first_role=2, separator=" ")
    assert one == {"words": ["It", "rained"], "lemma": "rain", "predicate": 1, "tags": ["B-A0", "B-V"]}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\tTO\t-\t-\t(A1*\t*", "\tTO\t-\t-\t(A1*", 5, "6 columns. Expected 7: 5, and one of roles for each of the 2"),
        ("\t-\t(A0*\t*", "\t-\t(A0*)\t*", 3, r"the roles do not match at '\*\)'"),
        ("(V*)\t*\n3", "(V*\t*\n3", 5, r"the roles do not match at '\(A1\*', inside \(V\* of .*:4"),
        ("*A1)", "*", 5, r"\(A1\* is never closed"),
        ("*A1)", "*A2)", 7, r"'A2' closes \(A1\* of .*:5\. Expected 'A1', or nothing"),
        ("(C-A1*)", "C-A1", 7, "the roles do not match at 'C-A1'"),
        ("\thope\thope.01", "\thope", 4, "6 columns"),
    ],
)
def test_what_does_not_match_is_named(tmp_path, old, new, line, message):
    assert old in TEXT
    path = write(tmp_path, TEXT.replace(old, new))
    with pytest.raises(DataError, match=rf"{path}:{line}: .*{message}"):
        list(read_propositions(path))
    bad_lines = BadLines()
    assert list(read_propositions(path, skip_bad=True, bad_lines=bad_lines)) == []
    assert bad_lines.count == 1


@pytest.mark.parametrize("options", [{"columns": {"words": 0}}, {"first_role": 4}])
def test_bad_columns_are_refused(tmp_path, options):
    with pytest.raises(
        ValueError, match=r'`columns` must have "words" and "lemma", all before the column `first_role`'
    ):
        read_propositions(write(tmp_path, TEXT), **options)


label = st.sampled_from(["A0", "A1", "C-A1", "AM-TMP", None])


@given(st.lists(st.tuples(label, st.integers(1, 3)), min_size=1, max_size=6))
def test_brackets_of_any_spans_become_their_tags(tmp_path_factory, spans):
    tags, cells = [], []
    for name, length in spans:
        if name is None:
            tags += ["O"] * length
            cells += ["*"] * length
        else:
            tags += [f"B-{name}"] + [f"I-{name}"] * (length - 1)
            cells += [f"({name}*)"] if length == 1 else [f"({name}*", *["*"] * (length - 2), "*)"]
    lines = [f"w be {one}" if not at else f"w - {one}" for at, one in enumerate(cells)]
    path = write(tmp_path_factory.mktemp("srl"), "\n".join(lines))
    (example,) = read_propositions(path, columns={"words": 0, "lemma": 1}, first_role=2, separator=" ")
    assert example["tags"] == tags


@pytest.mark.parametrize(("part", "expected"), [("dev", (4956, 1526)), ("test", (4791, 1531))])
def test_the_propositions_of_the_web_treebank_are_read_whole(part, expected):
    examples = list(read_propositions(shared_data(f"propbank-ewt-srl/ewt.{part}.srl.conll.gz")))
    sentences = sum(
        one["words"] is not other["words"] for other, one in itertools.pairwise([{"words": None}, *examples])
    )
    assert (len(examples), sentences) == expected
    assert all(one["tags"][one["predicate"]].endswith("V") for one in examples[:100])

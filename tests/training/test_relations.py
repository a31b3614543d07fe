from __future__ import annotations

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training.readers import DataError
from keras_attention.training.relations import parse_relation, read_relations
from tests.shared_data import shared_data

SENTENCE = "The <e1>author</e1> of a keygen uses a <e2>disassembler</e2>."
TEXT = (
    f'1\t"{SENTENCE}"\r\nInstrument-Agency(e2,e1)\r\nComment: <e1> is an Agency.\r\n\r\n'
    '2\t"A <e2>b</e2>, <e1>c d</e1>"\r\nOther\r\n'
)


def test_marks_become_spans():
    words = ["The", "author", "of", "a", "keygen", "uses", "a", "disassembler", "."]
    assert parse_relation(SENTENCE) == (words, (1, 2), (7, 8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<e1>a</e1><e2>b</e2>", (["a", "b"], (0, 1), (1, 2))),
        ("x<e2>b c</e2>y <e1>it's </e1>", (["x", "b", "c", "y", "it", "'s"], (4, 6), (1, 3))),
        ("The <e1>U.S.A.</e1>, <e2>3.14</e2>.", (["The", "U.S.A", ".", ",", "3.14", "."], (1, 3), (4, 5))),
        ("<e1>a</e1> < e1 <b> <e2>b</e2>", (["a", "<", "e1", "<", "b", ">", "b"], (0, 1), (6, 7))),
    ],
)
def test_a_mark_ends_a_word(text, expected):
    assert parse_relation(text) == expected


def test_another_way_to_split():
    assert parse_relation("A <e1>b-c.</e1> <e2>d</e2>", str.split) == (["A", "b-c.", "d"], (1, 2), (2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"The mark <e1> is missing in ''\. Expected both entities marked once, such as"),
        ("<e1>a</e1> <e2>b", r"The mark </e2> is missing in '<e1>a</e1> <e2>b'"),
        ("<e1>a</e1> <e2>b</e2> <e1>c</e1>", "The mark <e1> comes 2 times"),
        ("<e1>a <e2>b</e1> c</e2>", "The marks are <e1> <e2> </e1> </e2> in .*closed before the other opens"),
        ("<e1>a <e2>b</e2></e1>", "The marks are <e1> <e2> </e2> </e1>"),
        ("</e1>a<e1> <e2>b</e2>", "The marks are </e1> <e1> <e2> </e2>"),
        ("<e1> </e1> <e2>b</e2>", "There is no word between <e1> and </e1>"),
    ],
)
def test_wrong_marks_are_told(text, message):
    with pytest.raises(ValueError, match=message):
        parse_relation(text)


words = st.lists(st.text("abcDE", min_size=1, max_size=4), max_size=4)


@given(words, words.filter(bool), words, words.filter(bool), words, st.booleans())
def test_spans_hold_the_words_that_were_marked(before, first, between, second, behind, swapped):
    one, two = ("e2", "e1") if swapped else ("e1", "e2")
    parts = [*before, f"<{one}>{' '.join(first)}</{one}>", *between, f"<{two}>{' '.join(second)}</{two}>", *behind]
    found, *spans = parse_relation(" ".join(parts), str.split)
    assert found == [*before, *first, *between, *second, *behind]
    held = [found[slice(*span)] for span in spans]
    assert held == ([second, first] if swapped else [first, second])
    start = len(before)
    assert spans[swapped] == (start, start + len(first))


def test_files_are_read(tmp_path):
    path = tmp_path / "TRAIN_FILE.TXT"
    path.write_bytes(TEXT.encode())
    assert list(read_relations([path, path])) == 2 * [
        {"id": 1, "text": SENTENCE, "label": "Instrument-Agency(e2,e1)"},
        {"id": 2, "text": "A <e2>b</e2>, <e1>c d</e1>", "label": "Other"},
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("1\t", "", 1, "is no sentence. Expected a number, a tab and a sentence in quotes"),
        ("</e1> of", " of", 1, "The mark </e1> is missing"),
        (
            "Agency(e2,e1)\r",
            "Agency\r",
            2,
            "'Instrument-Agency' is no relation. Expected 'Other' or one of Cause-Effect",
        ),
        ("Other\r\n", "", 5, "'' is no relation"),
        ("Other", "other", 6, "'other' is no relation"),
    ],
)
def test_a_bad_line_is_named(tmp_path, old, new, line, message):
    assert old in TEXT
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT.replace(old, new).encode())
    with pytest.raises(DataError, match=rf"{path}:{line}: .*{message}"):
        list(read_relations(path))


def test_a_missing_file_is_told_at_the_call(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_relations(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="at least one path"):
        read_relations([])


@pytest.mark.parametrize(
    ("name", "ids"), [("TRAIN_FILE.TXT.gz", range(1, 8001)), ("TEST_FILE_FULL.TXT.gz", range(8001, 10718))]
)
def test_the_data_of_the_task_are_read_whole(name, ids):
    examples = list(read_relations(shared_data(f"semeval2010-task8/{name}")))
    assert [one["id"] for one in examples] == list(ids)
    assert len({one["label"] for one in examples}) == 19
    for one in examples[:200]:
        found, first, second = parse_relation(one["text"])
        assert 0 <= first[0] < first[1] <= second[0] < second[1] <= len(found)


def test_the_labels_of_the_test_part_are_those_of_the_task():
    """Lines that start with "Other", and with "Cause-Effect", as grep counts them."""
    counts = collections.Counter(
        one["label"].split("(")[0] for one in read_relations(shared_data("semeval2010-task8/TEST_FILE_FULL.TXT.gz"))
    )
    assert (counts["Other"], counts["Cause-Effect"], sum(counts.values())) == (454, 328, 2717)

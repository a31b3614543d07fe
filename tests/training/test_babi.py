from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_attention.training.babi import read_babi
from keras_attention.training.readers import DataError
from tests.shared_data import shared_data

TEXT = """1 Mary got the milk there.
2 John moved to the bedroom.
3 What is Mary carrying? \tmilk\t1
4 John went back.
5 How do you go from here?\ts,w\t4 2
1 Sandra slept.
2 Where is Sandra?\tbed
"""


def write(tmp_path, text, name="qa1_train.txt"):
    path = tmp_path / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["qa1.txt", "qa1.txt.gz"])
def test_each_question_comes_with_its_story_so_far(tmp_path, name):
    story = ["Mary got the milk there.", "John moved to the bedroom."]
    assert list(read_babi(write(tmp_path, TEXT, name))) == [
        {"story": story, "question": "What is Mary carrying?", "answer": "milk", "supporting": [0]},
        {
            "story": [*story, "John went back."],
            "question": "How do you go from here?",
            "answer": "s,w",
            "supporting": [2, 1],
        },
        {"story": ["Sandra slept."], "question": "Where is Sandra?", "answer": "bed", "supporting": []},
    ]


def test_files_follow_each_other(tmp_path):
    files = [write(tmp_path, TEXT, name) for name in ("a.txt", "b.txt.gz")]
    assert len(list(read_babi(files))) == 6


def test_examples_do_not_share_their_stories(tmp_path):
    first, second, _ = read_babi(write(tmp_path, TEXT))
    assert (len(first["story"]), len(second["story"])) == (2, 3)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("2 John", "John", 2, "'John moved to the bedroom.' is no numbered line"),
        ("2 John moved to the bedroom.", "2 ", 2, "'2 ' is no numbered line"),
        ("4 John", "5 John", 4, "line number 5 follows 3. Expected 4, or 1 for a new story"),
        ("1 Mary", "2 Mary", 1, "line number 2 follows 0. Expected 1"),
        ("\tmilk\t1", "\t\t1", 3, "is no question. Expected question, tab, answer"),
        ("\tmilk\t1", "\tmilk\t1\t2", 3, "is no question"),
        ("What is Mary carrying? ", "", 3, "is no question"),
        ("4 2", "4 3", 5, r"'3' supports the answer, and is no sentence.*Expected numbers out of 1, 2, 4\."),
        ("4 2", "4 x", 5, "'x' supports the answer"),
    ],
)
def test_a_bad_line_is_named(tmp_path, old, new, line, message):
    assert old in TEXT
    path = write(tmp_path, TEXT.replace(old, new))
    with pytest.raises(DataError, match=f"{path}:{line}: .*{message}"):
        list(read_babi(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_babi([write(tmp_path, TEXT), tmp_path / "qa2.txt"])
    path = write(tmp_path, TEXT.encode().replace(b"milk there", b"caf\xe9"))
    with pytest.raises(DataError, match=f"{path}:1: invalid UTF-8"):
        list(read_babi(path))
    with pytest.raises(DataError, match="there is no question in it"):
        list(read_babi(write(tmp_path, "1 Mary slept.\n")))
    path = write(tmp_path, TEXT, "cut.txt.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=rf"{path}:\d+: the gzip data is damaged, cut short"):
        list(read_babi(path))
    with pytest.raises(ValueError, match="at least one path"):
        read_babi([])


word = st.text("abcXYZ é'", min_size=1, max_size=8).map(str.strip).filter(bool)
items = st.lists(st.one_of(word, st.tuples(word, word)), min_size=1, max_size=8)


@given(st.lists(items, min_size=1, max_size=3), st.data())
def test_any_stories_come_back_as_they_were(tmp_path_factory, stories, data):
    lines, expected = [], []
    for items in [*stories, ["end", ("question", "answer")]]:
        story, numbers = [], []
        for number, item in enumerate(items, start=1):
            if isinstance(item, str):
                lines.append(f"{number} {item}")
                story.append(item)
                numbers.append(number)
                continue
            chosen = data.draw(st.lists(st.integers(0, len(story) - 1), max_size=3)) if story else []
            lines.append(f"{number} {item[0]}\t{item[1]}\t{' '.join(str(numbers[one]) for one in chosen)}")
            expected.append({"story": story[:], "question": item[0], "answer": item[1], "supporting": chosen})
    path = write(tmp_path_factory.mktemp("babi"), "\n".join(lines), "qa17_train.txt")
    assert list(read_babi(path)) == [{**one, "task": 17} for one in expected]


@pytest.mark.parametrize("part", ["train", "test"])
def test_all_tasks_are_read_whole(part):
    files = sorted(shared_data("babi/en").glob(f"*_{part}.txt.gz"))
    assert len(files) == 20
    for file in files:
        examples = list(read_babi(file))
        assert len(examples) == 1000, file
        assert all(one["supporting"] for one in examples), file
        assert {f"qa{one['task']}" for one in examples} == {file.name.split("_")[0]}


def test_the_larger_training_files_are_read_whole():
    files = sorted(shared_data("babi/en-10k").glob("*_train.txt.gz"))
    assert len(files) == 19
    assert sum(1 for _ in read_babi(files[0])) == 10000

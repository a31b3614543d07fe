from __future__ import annotations

import pytest

from keras_attention.training import scoring
from keras_attention.training.formats import READERS, read_data
from keras_attention.training.readers import BadLines, DataError

FILES = {
    "babi": "1 Mary went home.\n2 Where is Mary?\thome\t1\n",
    "conll": "The\tDET\ncat\tNOUN\n\nIt\tPRON\n",
    "propositions": "1\tIt\tPRON\t-\t_\t(A0*)\n",
    "relations": '1\t"The <e1>cat</e1> of the <e2>house</e2>."\nOther\nComment:\n\n',
}


def write(tmp_path, text, name="data.txt"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_tables_have_the_columns_of_the_model(tmp_path):
    path = write(tmp_path, "good film\tgood\nbad film\tbad\n", "a.tsv")
    examples = list(read_data(path, columns=("text", "label")))
    assert examples == [{"text": "good film", "label": "good"}, {"text": "bad film", "label": "bad"}]
    assert [one.where for one in examples] == [f"{path}:1", f"{path}:2"]


def test_other_formats_have_their_own_and_know_their_lines(tmp_path):
    examples = list(read_data(write(tmp_path, FILES["conll"]), columns=("text", "label"), format="conll"))
    assert examples == [{"words": ["The", "cat"], "tags": ["DET", "NOUN"]}, {"words": ["It"], "tags": ["PRON"]}]
    assert [one.where[-2:] for one in examples] == [":1", ":4"]
    (example,) = read_data(write(tmp_path, FILES["relations"]), columns=(), format="relations")
    assert example["label"] == "Other"
    assert example.where.endswith(":2")
    (example,) = read_data(write(tmp_path, FILES["babi"]), columns=(), format="babi")
    assert (example["story"], example["answer"], example.where[-2:]) == (["Mary went home."], "home", ":2")


def test_options_go_to_the_reader(tmp_path):
    path = write(tmp_path, "cat NN\n")
    assert list(read_data(path, columns=(), format="conll", separator=" ")) == [{"words": ["cat"], "tags": ["NN"]}]


def test_bad_lines_are_skipped_where_the_reader_can(tmp_path):
    bad = BadLines()
    path = write(tmp_path, "The\tDET\ncat\n\nIt\tPRON\n")
    examples = list(read_data(path, columns=(), format="conll", skip_bad=True, bad_lines=bad))
    assert (examples, bad.count) == ([{"words": ["It"], "tags": ["PRON"]}], 1)
    with pytest.raises(DataError, match=r"data.txt:2"):
        list(read_data(path, columns=(), format="conll"))
    with pytest.raises(ValueError, match="'babi' are read whole or not at all. Leave `skip_bad` out"):
        read_data(write(tmp_path, FILES["babi"]), columns=(), format="babi", skip_bad=True)


def test_unknown_formats_and_options_are_refused(tmp_path):
    path = write(tmp_path, FILES["conll"])
    with pytest.raises(ValueError, match="Unknown format 'conl'. Expected one of tsv, jsonl, parallel, babi, conll"):
        read_data(path, columns=(), format="conl")
    with pytest.raises(ValueError, match="The format 'conll' has no option 'seperator'. Expected some of columns, sep"):
        read_data(path, columns=(), format="conll", seperator=" ")
    assert set(READERS) == set(FILES)


def test_every_task_has_scores():
    from keras_attention.models import FAMILIES, family_class

    assert {family_class(family).task for family in FAMILIES} == set(scoring.SCORERS)
    with pytest.raises(ValueError, match="No scores for the task 'dance'. Expected one of .*classification"):
        scoring.require_scorer("dance")

"""The scripts that prepare entailment and relation data."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from keras_attention.text import WordTokenizer
from keras_attention.text.entity_marks import MARK_WORDS
from keras_attention.training.relations import read_relations
from tests.shared_data import shared_data

TRAINING = Path(__file__).resolve().parents[2] / "training"
HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def script(name):
    specification = importlib.util.spec_from_file_location(name, TRAINING / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_sick_is_written_whole(tmp_path):
    assert script("prepare_entailment").main(["--sick", str(shared_data("sick")), "--out", str(tmp_path)]) == 0
    parts = {name: rows(tmp_path / f"{name}.jsonl") for name in ("train", "valid", "test")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 4500, "valid": 500, "test": 4927}
    assert {one["label"] for part in parts.values() for one in part} == {"contradiction", "entailment", "neutral"}
    assert parts["train"][0]["premise"].startswith("A group of kids is playing in a yard")


def test_no_premise_of_snli_is_in_two_parts(tmp_path):
    assert script("prepare_entailment").main(["--snli", str(shared_data("snli-devtest")), "--out", str(tmp_path)]) == 0
    parts = {name: rows(tmp_path / f"{name}.jsonl") for name in ("train", "valid", "test")}
    assert len(parts["train"]) + len(parts["valid"]) == 9842
    assert len(parts["test"]) == 9824
    premises = {name: {one["premise"] for one in part} for name, part in parts.items()}
    assert not premises["train"] & premises["valid"]
    assert 0.08 < len(parts["valid"]) / 9842 < 0.12


@pytest.mark.parametrize(
    ("text", "message"),
    [(f"{HEADER}\n1\tA\tB\t4.5\n", r":2: .* has not the columns pair_ID"), ("pair_ID\n", ":1: 'pair_ID' has not the")],
)
def test_a_broken_file_is_named(tmp_path, capsys, text, message):
    (tmp_path / "SICK_train.txt").write_text(text)
    assert script("prepare_entailment").main(["--sick", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "SICK_train.txt" + message.split(" ")[0].strip() in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path, capsys):
    assert script("prepare_entailment").main(["--snli", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert f"There is no s1.dev or s1.dev.gz in {tmp_path}" in capsys.readouterr().err


def test_every_tenth_sentence_validates(tmp_path):
    given = shared_data("semeval2010-task8/TRAIN_FILE.TXT.gz")
    assert script("prepare_relations").main(["--train", str(given), "--out", str(tmp_path)]) == 0
    train, valid = (list(read_relations(tmp_path / f"{name}.txt")) for name in ("train", "valid"))
    assert [one["id"] for one in valid] == list(range(10, 8001, 10))
    assert len(train) == 7200
    assert sorted([*train, *valid], key=lambda one: one["id"]) == list(read_relations(given))


def test_rare_words_are_kept_where_they_have_a_vector(tmp_path):
    texts = ["A <e1>dog</e1> bites a <e2>zorx</e2>.", "A <e1>cat</e1> bites a <e2>blurb</e2>."]
    (tmp_path / "train.txt").write_text(
        "".join(f'{number}\t"{text}"\nOther\nComment:\n\n' for number, text in enumerate(texts, 1))
    )
    (tmp_path / "vectors.txt").write_text("cat 1 2\nblurb 3 4\nhouse 5 6\n")
    files = ["--train", str(tmp_path / "train.txt"), "--vectors", str(tmp_path / "vectors.txt")]
    assert script("prepare_relations").main([*files, "--out", str(tmp_path)]) == 0
    tokenizer = WordTokenizer.load(tmp_path / "tokenizer")
    words = tokenizer.tokens(range(4, tokenizer.vocabulary_size))
    assert words[:4] == [*MARK_WORDS]
    assert sorted(words[4:]) == [".", "a", "bites", "blurb", "cat"]

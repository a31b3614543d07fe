"""The scripts that make the data of the recipes `qa_memn2n` and `cloze_aoa`, and the baselines of the latter."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from keras_attention.training import read_babi
from tests.shared_data import shared_data

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    specification = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_validation_takes_whole_stories_whose_answers_training_has_too(tmp_path, capsys):
    places = ["kitchen", "garden", "kitchen", "garden", "attic", "kitchen", "garden", "kitchen", "garden", "garden"]
    stories = [f"1 Ann is in the {one}.\n2 Where is Ann?\t{one}\t1\n3 Where is she?\t{one}\t1\n" for one in places]
    (tmp_path / "qa1_x_train.txt").write_text("".join(stories), "utf-8")
    prepare = script("training/prepare_babi.py")
    assert prepare.main(["--tasks", str(tmp_path), "--out", str(tmp_path / "out"), "--share", "0.3"]) == 0
    assert capsys.readouterr().out == "qa1_x_train.txt: 14 and 6 questions\n"
    parts = {part: (tmp_path / "out" / part / "qa1_x_train.txt").read_text("utf-8") for part in ("train", "valid")}
    kept = {part: [f"1 {story}" for story in text.split("1 Ann")[1:]] for part, text in parts.items()}
    assert sorted(f"1 Ann{one[2:]}" for each in kept.values() for one in each) == sorted(stories)
    assert "attic" in parts["train"]
    assert len(list(read_babi(tmp_path / "out" / "valid" / "qa1_x_train.txt"))) == 6
    assert prepare.main(["--tasks", str(tmp_path / "out"), "--out", str(tmp_path / "out")]) == 1
    assert "has no file qa*_train.txt" in capsys.readouterr().err
    assert prepare.main(["--tasks", str(tmp_path), "--out", str(tmp_path / "out"), "--share", "1"]) == 1


def test_validation_of_the_real_tasks_is_a_tenth_of_each(tmp_path):
    assert (
        script("training/prepare_babi.py").main(["--tasks", str(shared_data("babi/en")), "--out", str(tmp_path)]) == 0
    )
    answers = {}
    for part in ("train", "valid"):
        files = sorted((tmp_path / part).iterdir())
        assert len(files) == 20
        found = {file.name: [*read_babi(file)] for file in files}
        answers[part] = {one["answer"] for each in found.values() for one in each}
        assert all((900 if part == "train" else 100) - len(each) in range(-9, 10) for each in found.values())
    assert answers["valid"] <= answers["train"]


def book(names):
    body = "\n\n".join(
        f"{names[number % 2]} saw the dog and the cat. The house and the tree were near the road.\n"
        f"Then {names[1 - number % 2]} took the bread, the milk, the table, the door and the cup to the house."
        for number in range(12)
    )
    return f"*** START OF THE BOOK ***\n{body}\n*** END OF THE BOOK ***\nLicence"


def test_no_book_is_in_two_files(tmp_path, capsys):
    nouns = ["dog", "cat", "house", "tree", "road", "bread", "milk", "table", "door", "cup"]
    rows = [*((noun, "NOUN") for noun in nouns), ("saw", "VERB"), ("the", "DET"), ("and", "CCONJ"), ("took", "VERB")]
    rows += [("were", "AUX"), ("near", "ADP"), ("to", "ADP"), ("then", "ADV"), (".", "PUNCT"), (",", "PUNCT")]
    lines = [f"{place}\t{word}\t_\t{tag}" for place, (word, tag) in enumerate(rows, start=1)]
    (tmp_path / "tags.conllu").write_text("\n".join(lines) + "\n", "utf-8")
    for number, names in (("1", "Ann Bob"), ("2", "Cid Dan"), ("3", "Eve Fay")):
        (tmp_path / f"{number}.txt").write_text(book(names.split()), "utf-8")
    prepare = script("training/prepare_cloze.py")
    given = ["--books", str(tmp_path), "--tags", str(tmp_path / "tags.conllu"), "--out", str(tmp_path / "out")]
    assert prepare.main([*given, "--valid", "2", "--test", "3"]) == 0
    assert capsys.readouterr().out.startswith("valid: 1 books, ")
    found = {}
    for part, names in (("train", {"Ann", "Bob"}), ("valid", {"Cid", "Dan"}), ("test", {"Eve", "Fay"})):
        text = (tmp_path / "out" / f"{part}.jsonl").read_text("utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        assert rows
        for one in rows:
            assert names & {*one["document"].split()} and not {"Licence", "START"} & {*one["document"].split()}
            assert set(one["candidates"].split("|")) == set(nouns)
        found[part] = rows
    assert prepare.main([*given, "--valid", "9"]) == 1
    assert "has no book 9" in capsys.readouterr().err
    baselines = script("benchmarks/cloze_baselines.py")
    baselines.main([f"--{part}={tmp_path / 'out' / part}.jsonl" for part in ("train", "valid", "test")])
    report = capsys.readouterr().out.splitlines()
    assert [line.split(" (")[0].split(":")[0] for line in report] == [
        "most frequent candidate",
        "window",
        "window with cache",
    ]


def test_the_baselines_by_hand():
    baselines = script("benchmarks/cloze_baselines.py")
    example = {
        "document": "a cat , a dog , a cat",
        "query": "he fed the xxxxx .",
        "candidates": "dog|cat",
        "answer": "dog",
        "kind": "common_noun",
    }
    assert baselines.most_frequent(example) == "cat"
    counts = baselines.count([["he", "fed", "the", "dog", "."], ["a", "cat", "sat", "."]])
    assert (counts[("fed", "the", "dog")], counts[("dog", ".")], counts[("</s>",)], counts[()]) == (1, 1, 4, 13)
    assert baselines.likeliest(example, counts, 0.0, (0.4, 0.4)) == "dog"
    assert baselines.accuracy(["dog", "cat"], [example, example]) == 50


@pytest.mark.parametrize("words", [["The", "cat", "Tom", "glimmerings"]])
def test_the_list_of_words_guesses_what_it_does_not_know(words, tmp_path):
    lines = ["1\tthe\t_\tDET", "2\tcat\t_\tNOUN", "3\tfeelings\t_\tNOUN"]
    (tmp_path / "tags.conllu").write_text("\n".join(lines) + "\n", "utf-8")
    tag = script("training/prepare_cloze.py").lexicon_tagger(tmp_path / "tags.conllu")
    assert tag(words) == ["DET", "NOUN", "PROPN", "NOUN"]


def test_a_tagger_of_the_zoo_tags_sentences_of_any_length():
    tagger = script("training/prepare_cloze.py").zoo_tagger("tag_selfattention.pos")
    words = ["The", "dog", "sat", *["and", "the", "dog", "sat"] * 150, "."]
    tag = tagger(" ".join(words) + "\n\nThe cat sat.")
    assert len(tag(words)) == len(words) and {"NOUN", "VERB"} <= {*tag(words)}
    assert tag(["The", "cat", "sat", "."]) == ["DET", "NOUN", "VERB", "PUNCT"]

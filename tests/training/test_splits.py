from __future__ import annotations

import importlib.util
import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.training.readers import read_examples
from keras_attention.training.splits import Splits, comparison_key, split_pairs
from tests.shared_data import shared_data

PARTS = ("train", "valid", "test")
SCRIPT = Path(__file__).resolve().parents[2] / "training" / "prepare_tatoeba.py"


def parts_that_share_a_side(splits: Splits) -> list[tuple[str, str, str]]:
    """(side, part, other part) for each side whose sentences, spelling details aside, are in both parts."""
    found = []
    for side, name in enumerate(("source", "target")):
        keys = {
            part: {comparison_key(text) for text in {pair[side] for pair in getattr(splits, part)}} for part in PARTS
        }
        found += [(name, a, b) for a in PARTS for b in PARTS if a < b and keys[a] & keys[b]]
    return found


def sources(pairs: list[tuple[str, str]]) -> set[str]:
    return {source for source, _ in pairs}


def numbered(count: int) -> list[tuple[str, str]]:
    return [(f"source {index}", f"target {index}") for index in range(count)]


graphs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60).map(
    lambda edges: [(f"s{source}", f"t{target}") for source, target in edges] + numbered(8)
)


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 4), st.integers(0, 4), st.text(max_size=5), st.randoms(use_true_random=False))
def test_no_sentence_crosses_a_split_and_counts_are_exact_in_any_order(pairs, valid, test, seed, shuffler):
    splits = split_pairs(pairs, valid=valid, test=test, seed=seed, largest_component=3)
    assert parts_that_share_a_side(splits) == []
    assert (len(sources(splits.valid)), len(sources(splits.test))) == (valid, test)
    together = splits.train + splits.valid + splits.test
    assert sorted(together) == sorted(set(pairs))
    shuffler.shuffle(pairs)
    assert split_pairs(pairs, valid=valid, test=test, seed=seed, largest_component=3) == splits


def test_sentences_that_share_a_translation_stay_together():
    pairs = [("Go!", "Va !"), ("Go!", "Pars !"), ("Leave!", "Pars !"), ("Leave!", "Partez !"), *numbered(20)]
    for seed in "abcdefghij":
        splits = split_pairs(pairs, valid=5, test=5, seed=seed)
        assert sum("Go!" in sources(getattr(splits, part)) for part in PARTS) == 1
        for part in PARTS:
            assert ("Go!" in sources(getattr(splits, part))) == ("Leave!" in sources(getattr(splits, part)))


@pytest.mark.parametrize(
    "spelling", ["Ça va ?", "Ça va\u202f?", "Ça  va\u00a0? ", "ça va?", "Ça va !", "C\u0327a va…", "ÇA VA ?"]
)
def test_spellings_that_differ_in_spaces_case_or_punctuation_are_one_node(spelling):
    assert comparison_key(spelling) == comparison_key("Ça va ?")
    pairs = [("How are you?", "Ça va ?"), ("Alright?", spelling), *numbered(10)]
    for seed in "abcdef":
        splits = split_pairs(pairs, valid=4, test=4, seed=seed)
        assert parts_that_share_a_side(splits) == []


def test_words_and_letters_still_tell_sentences_apart():
    assert comparison_key("Il a tué.") != comparison_key("Il a tue.")
    assert comparison_key("4 €") != comparison_key("4 $")
    assert comparison_key("?!") != comparison_key("…")


def test_one_text_on_both_sides_joins_nothing():
    splits = split_pairs([("Non", "Oui"), ("Oui", "Non")], valid=1, test=1, largest_component=1)
    assert len(splits.valid) == len(splits.test) == 1


def test_large_components_stay_in_train():
    star = [(f"way {index} to say it", "Bon.") for index in range(4)]
    splits = split_pairs(star + numbered(6), valid=3, test=3, largest_component=3)
    assert sorted(splits.train) == sorted(star)


def test_duplicates_after_normalisation_are_dropped():
    splits = split_pairs([("Hi.", "Salut\u202f!"), (" Hi. ", "Salut !"), ("Hi.", "Salut !")], valid=0, test=0)
    assert splits.train == [("Hi.", "Salut !")]


def test_another_seed_gives_another_split_and_the_same_seed_the_same():
    pairs = numbered(50)
    first = split_pairs(pairs, valid=10, test=10, seed="one")
    assert first == split_pairs(reversed(pairs), valid=10, test=10, seed="one")
    assert sources(first.test) != sources(split_pairs(pairs, valid=10, test=10, seed="two").test)


@pytest.mark.parametrize(
    ("pairs", "arguments", "message"),
    [
        (numbered(3), {"valid": 2, "test": 2}, "Cannot give `valid` exactly 2 distinct sources: reached 1"),
        ([("a", "x"), ("b", "x")], {"valid": 0, "test": 1}, "Cannot give `test` exactly 1"),
        (numbered(3), {"valid": -1, "test": 0}, "`valid` must be at least 0. Received -1"),
        (numbered(3), {"valid": 0, "test": 0, "largest_component": 0}, "`largest_component` must be at least 1"),
        ([("a", "\u00a0")], {"valid": 0, "test": 0}, "Pair 1 has an empty side"),
    ],
)
def test_impossible_requests_are_refused(pairs, arguments, message):
    with pytest.raises(ValueError, match=message):
        split_pairs(pairs, **arguments)


def prepare_tatoeba():
    specification = importlib.util.spec_from_file_location("prepare_tatoeba", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def read_pairs(path: Path) -> list[tuple[str, str]]:
    return [tuple(example.values()) for example in read_examples(path, columns=("source", "target"))]


def test_the_tatoeba_script_writes_what_it_says(tmp_path, capsys):
    pairs = [*numbered(30), ("source 1", "target 1 again"), ("tell me", "dis\u202fmoi")]
    random.Random(3).shuffle(pairs)
    given = tmp_path / "pairs.txt"
    given.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    out = tmp_path / "new" / "folder"
    assert prepare_tatoeba().main(["--pairs", str(given), "--out", str(out), "--valid", "5", "--test", "6"]) == 0
    assert sorted(file.name for file in out.iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]
    written = Splits(**{part: read_pairs(out / f"{part}.tsv") for part in PARTS})
    assert written == split_pairs(pairs, valid=5, test=6)
    assert "6 distinct English sentences" in capsys.readouterr().out


def test_the_tatoeba_script_fails_with_the_bad_line(tmp_path, capsys):
    given = tmp_path / "pairs.txt"
    given.write_text("Go.\tVa !\nno tab\n", encoding="utf-8")
    assert prepare_tatoeba().main(["--pairs", str(given), "--out", str(tmp_path)]) == 1
    assert "pairs.txt:2: a tab is missing" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.txt"]


def test_the_real_pairs_split_into_2000_and_2000_sentences(tmp_path):
    pairs = shared_data("tatoeba-anki/fra.txt.gz")
    assert prepare_tatoeba().main(["--pairs", str(pairs), "--out", str(tmp_path)]) == 0
    splits = Splits(**{part: read_pairs(tmp_path / f"{part}.tsv") for part in PARTS})
    assert len(sources(splits.valid)) == len(sources(splits.test)) == 2000
    assert parts_that_share_a_side(splits) == []
    assert len(splits.train) > 130_000
    assert len(splits.train) + len(splits.valid) + len(splits.test) > 142_000
    for part in PARTS:  # the targets of a source stand together
        order = [source for source, _ in getattr(splits, part)]
        assert 1 + sum(a != b for a, b in itertools.pairwise(order)) == len(set(order))

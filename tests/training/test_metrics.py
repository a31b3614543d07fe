from __future__ import annotations

import gzip
import math
import os
import random
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from keras_attention.training.metrics import (
    corpus_scores,
    evaluate,
    group_references,
    moses_tokens,
    paired_bootstrap,
    tokenized_bleu,
)
from tests.shared_data import shared_data

sacrebleu = pytest.importorskip("sacrebleu")

REFERENCES = [
    ["The cat sat on the mat."],
    ["Where is the old library, please?", "Where is the library?"],
    ["It rains.", "It is raining.", "Rain is falling."],
]
OUTPUTS = ["The cat sat on a mat.", "Where is the library, please?", "It is raining now."]


def counted_bleu(output: list[str], references: list[list[str]]) -> float:
    """BLEU of one sentence as Papineni et al., 2002, section 2.3 counts it; no smoothing."""
    logarithms = []
    for n in range(1, 5):

        def grams(tokens, n=n):
            return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))

        most = Counter()
        for reference in references:
            most |= grams(reference)
        logarithms.append(math.log((grams(output) & most).total() / grams(output).total()))
    closest = min((abs(len(reference) - len(output)), len(reference)) for reference in references)[1]
    brevity = min(0.0, 1 - closest / len(output))
    return 100 * math.exp(brevity + sum(logarithms) / 4)


def test_bleu_equals_a_hand_count():
    # "The cat sat on the red ." has 7 tokens against 8. Right are 6/7, 4/6, 3/5 and 2/4 of its 1- to 4-grams.
    by_hand = 100 * math.exp(1 - 8 / 7) * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25
    scores = corpus_scores("translation", ["The cat sat on the red."], [["The cat sat on the big old."]])
    assert scores["bleu"] == pytest.approx(by_hand, abs=1e-9)


def test_bleu_counts_each_reference_once():
    output, references = "a b c d e f a b", ["a b c d x x x x x", "d e f a b c y"]
    counted = counted_bleu(output.split(), [reference.split() for reference in references])
    assert corpus_scores("translation", [output], [references])["bleu"] == pytest.approx(counted, abs=1e-9)
    assert corpus_scores("translation", [output], [references[:1]])["bleu"] < counted


def test_scores_equal_a_direct_call_of_sacrebleu():
    # A reference given twice changes no count, so varying numbers can be made equal by repeating the first.
    streams = [[(texts + texts[:1] * 2)[index] for texts in REFERENCES] for index in range(3)]
    scores = corpus_scores("translation", OUTPUTS, REFERENCES)
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, streams).score, abs=1e-9)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, streams).score, abs=1e-9)
    assert 30 < scores["bleu"] < 99


def test_signatures_say_what_was_counted():
    scores = corpus_scores("translation", OUTPUTS, REFERENCES)
    assert scores["bleu_signature"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores["chrf_signature"].startswith("nrefs:var|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    single = corpus_scores("translation", OUTPUTS, [texts[:1] for texts in REFERENCES])
    assert single["bleu_signature"].startswith("nrefs:1|")


def test_case_counts():
    assert corpus_scores("translation", ["the cat sat on the mat."], REFERENCES[:1])["bleu"] < 100


def test_references_are_grouped_by_source_in_order():
    examples = [
        {"source": "b", "target": "x"},
        {"source": "a", "target": "y"},
        {"source": "b", "target": "z"},
        {"source": "b", "target": "x"},
    ]
    assert group_references(examples) == (["b", "a"], [["x", "z"], ["y"]])
    assert group_references([{"q": "1", "r": "2"}], source="q", target="r") == (["1"], [["2"]])


class EchoModel:
    """Answers each input with the text it was given for it."""

    task = "translation"
    columns = ("english", "french")

    def __init__(self, answers):
        self.answers, self.calls = answers, []

    def run(self, inputs, **options):
        self.calls.append((inputs, options))
        return [SimpleNamespace(output=self.answers[text]) for text in inputs]


def test_evaluate_translates_each_source_once_and_scores_against_all_targets():
    model = EchoModel({"Hello there, you.": "Salut à toi, mon ami.", "It rains a lot here.": "Il pleut ici."})
    examples = [
        {"english": "Hello there, you.", "french": "Bonjour à toi, mon ami."},
        {"english": "It rains a lot here.", "french": "Il pleut beaucoup ici."},
        {"english": "Hello there, you.", "french": "Salut à toi, mon ami."},
    ]
    result = evaluate(model, iter(examples), beam_size=3)
    assert model.calls == [(["Hello there, you.", "It rains a lot here."], {"beam_size": 3})]
    references = [["Bonjour à toi, mon ami.", "Salut à toi, mon ami."], ["Il pleut beaucoup ici."]]
    expected = corpus_scores("translation", ["Salut à toi, mon ami.", "Il pleut ici."], references)
    assert {name: result[name] for name in expected} == expected
    assert (result["task"], result["examples"]) == ("translation", 2)
    assert result["seconds"] >= 0
    assert set(result) == {*expected, "task", "examples", "seconds"}


def test_evaluate_without_examples_is_refused():
    with pytest.raises(ValueError, match="no examples to evaluate"):
        evaluate(EchoModel({}), [])


def sentences(count: int, share_right: float, seed: int) -> tuple[list[str], list[list[str]]]:
    """Random sentences as references, and outputs that have a share of the words right."""
    generator = random.Random(seed)
    words = [f"w{index}" for index in range(50)]
    references = [[" ".join(random.Random(index).choices(words, k=9))] for index in range(count)]
    outputs = [
        " ".join(word if generator.random() < share_right else "wrong" for word in texts[0].split())
        for texts in references
    ]
    return outputs, references


def test_the_bootstrap_tells_better_from_equal():
    weak, references = sentences(120, 0.75, seed=1)
    strong, _ = sentences(120, 0.9, seed=2)
    like_weak, _ = sentences(120, 0.75, seed=3)
    clear = paired_bootstrap(weak, strong, references, samples=200)
    for name in ("bleu", "chrf"):
        assert clear[name]["p_value"] < 0.02
        assert clear[name]["difference"] > 0
        assert clear[name]["mean_difference"] == pytest.approx(clear[name]["difference"], abs=2)
    assert clear["bleu"]["a"] == corpus_scores("translation", weak, references)["bleu"]
    assert clear["chrf"]["b"] == corpus_scores("translation", strong, references)["chrf"]
    unclear = paired_bootstrap(weak, like_weak, references, samples=200)
    assert unclear["bleu"]["p_value"] > 0.05
    backwards = paired_bootstrap(strong, weak, references, samples=200)
    assert backwards["bleu"]["difference"] == -clear["bleu"]["difference"]
    assert backwards["bleu"]["mean_difference"] == pytest.approx(-clear["bleu"]["mean_difference"])


def test_equal_outputs_are_no_evidence():
    outputs, references = sentences(20, 0.8, seed=1)
    result = paired_bootstrap(outputs, outputs, references, samples=20)["bleu"]
    assert (result["difference"], result["mean_difference"], result["p_value"]) == (0, 0, 1)


def test_the_bootstrap_follows_its_seed_and_leaves_the_environment_alone(monkeypatch):
    a, references = sentences(30, 0.7, seed=1)
    b, _ = sentences(30, 0.8, seed=2)
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    first = paired_bootstrap(a, b, references, samples=50, seed=1)
    assert first == paired_bootstrap(a, b, references, samples=50, seed=1)
    other = paired_bootstrap(a, b, references, samples=50, seed=2)
    assert first["bleu"]["mean_difference"] != other["bleu"]["mean_difference"]
    assert "seed:1|" in first["bleu"]["signature"]
    assert "bs:50" in first["bleu"]["signature"]
    assert os.environ["SACREBLEU_SEED"] == "77"
    monkeypatch.delenv("SACREBLEU_SEED")
    paired_bootstrap(a, b, references, samples=5)
    assert "SACREBLEU_SEED" not in os.environ


@pytest.mark.parametrize(
    ("outputs", "references", "error", "message"),
    [
        (["a"], [["a"], ["b"]], ValueError, "Received 1 outputs and 2 lists"),
        ([], [], ValueError, "at least one. Received 0 outputs"),
        (["a", "b"], [["a"], []], ValueError, "Example 2 has no reference"),
        (["a"], ["a"], TypeError, "references of example 1 are the string 'a'"),
        ("a", [["a"]], TypeError, "`outputs` is the string 'a'"),
    ],
)
def test_unfit_outputs_and_references_are_refused(outputs, references, error, message):
    with pytest.raises(error, match=message):
        corpus_scores("translation", outputs, references)
    with pytest.raises(error, match=message):
        paired_bootstrap(outputs, outputs, references)


def test_unknown_tasks_and_no_samples_are_refused():
    with pytest.raises(ValueError, match=r"No scores for the task 'juggling'. Expected one of translation"):
        corpus_scores("juggling", ["a"], [["a"]])
    with pytest.raises(ValueError, match=r"`samples` must be at least 1. Received 0"):
        paired_bootstrap(["a"], ["a"], [["a"]], samples=0)


def test_a_missing_sacrebleu_says_how_to_install_it_before_decoding(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    model = EchoModel({"a": "b"})
    with pytest.raises(ImportError, match=r'pip install "keras-attention-zoo\[eval\]"'):
        evaluate(model, [{"english": "a", "french": "b"}])
    assert model.calls == []


MULTI30K = {"test_2016_flickr": 12103, "test_2017_flickr": 10758, "test_2017_mscoco": 5158}


@pytest.mark.parametrize("part", MULTI30K)
def test_raw_references_of_multi30k_get_the_official_tokens(part):
    folder = shared_data("multi30k")
    raw, official = (
        gzip.decompress(path.read_bytes()).decode("utf-8").removesuffix("\n").split("\n")
        for path in (folder / f"{part}.de.gz", folder / "tok" / f"{part}.lc.norm.tok.de.gz")
    )
    assert sum(len(line.split(" ")) for line in official) == MULTI30K[part]
    different = [one for one, other in zip(raw, official, strict=True) if moses_tokens(one, "de") != other]
    assert different == []


def test_tokenized_bleu_ignores_case_and_the_spaces_of_punctuation():
    reference = "ein mann , der lacht ."
    found = tokenized_bleu(["Ein Mann, der lacht."], [[reference]], "de")
    assert found["tokenized_bleu"] == pytest.approx(100)
    assert found["tokenized_bleu_signature"].startswith("case:lc|norm+tok:moses-de|nrefs:1|")
    # by hand: "ein hund , der lacht ." has 5, 3, 2 and 1 of 6, 5, 4 and 3 n-grams
    other = tokenized_bleu(["Ein Hund, der lacht."], [[reference]], "de")["tokenized_bleu"]
    assert other == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)

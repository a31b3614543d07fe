"""The commands `train`, `evaluate` and `export`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import keras_attention
from keras_attention import export, zoo
from keras_attention.training import Recipe, TrainingError, session
from keras_attention.training.metrics import corpus_scores
from tests import tiny

SOURCES = [source for source, _ in tiny.PAIRS[:4]]
TARGETS = [target for _, target in tiny.PAIRS[:4]]
RECIPE = """
version: 1
family: translation
model: {embedding_dim: 8, units: 8, max_length: 64}
tokenizer: {vocabulary_size: 150}
training:
  {steps: 2, batch_size: 8, precision: float32, checkpoint_seconds: 0, early_stopping: {metric: loss, patience: 0}}
evaluation: {metrics: [], samples: 0}
"""


def fails(done, status: int, message: str) -> None:
    assert (done.status, done.out) == (status, "")
    assert re.fullmatch(f"keras-attention: {message}.*\n", done.err)


@pytest.fixture
def pairs(tmp_path) -> Path:
    rows = [*zip(SOURCES, TARGETS, strict=True), (SOURCES[0], "Où se trouve la bibliothèque ?")]
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), "utf-8")
    return tmp_path / "pairs.tsv"


def test_evaluate_groups_the_references_of_a_source(call, loaded, pairs):
    pytest.importorskip("sacrebleu")
    done = call("evaluate", "x", "--data", pairs, "--beam", 1, "--json")
    outputs = [one.output for one in loaded.run(SOURCES, beam_size=1)]
    references = [[TARGETS[0], "Où se trouve la bibliothèque ?"], *([target] for target in TARGETS[1:])]
    wanted = corpus_scores("translation", outputs, references)
    found = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert (found["task"], found["examples"]) == ("translation", 4)
    limited = call("evaluate", "x", "--data", pairs, "--beam", 1, "--limit", 1).out.splitlines()
    assert "examples: 1" in limited
    assert any(re.fullmatch(r"chrf: \d+\.\d\d", line) for line in limited)
    assert any(line.startswith("chrf_signature: nrefs:2|") for line in limited)


def test_evaluate_counts_repeated_lines_of_parallel_files(call, loaded, tmp_path):
    pytest.importorskip("sacrebleu")
    texts = {
        "in": [*SOURCES, SOURCES[0]],
        "a": [*TARGETS, "Elle pleut."],
        "b": ["Il fait beau.", "", "", "", "Il neige."],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    files = ["--data", tmp_path / "in", "--references", tmp_path / "a", "--references", tmp_path / "b"]
    found = json.loads(call("evaluate", "x", *files, "--beam", 1, "--json").out)
    outputs = [one.output for one in loaded.run(texts["in"], beam_size=1)]
    references = [[one for one in both if one] for both in zip(texts["a"], texts["b"], strict=True)]
    wanted = corpus_scores("translation", outputs, references)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert found["examples"] == 5


def test_evaluate_reads_the_columns_it_is_told(call, loaded, tmp_path):
    pytest.importorskip("sacrebleu")
    (tmp_path / "three.tsv").write_text(f"7\t{TARGETS[0]}\t{SOURCES[0]}\n", "utf-8")
    done = call(
        "evaluate", "x", "--data", tmp_path / "three.tsv", "--columns", "id, target,source", "--beam", 1, "--json"
    )
    output = loaded.run(SOURCES[0], beam_size=1).output
    assert json.loads(done.out)["chrf"] == pytest.approx(corpus_scores("translation", [output], [[TARGETS[0]]])["chrf"])
    done = call("evaluate", "x", "--data", tmp_path / "three.tsv", "--columns", "id,target,text")
    fails(done, 1, "--columns id,target,text lacks 'source'")


def test_evaluate_names_the_bad_line(call, loaded, tmp_path, pairs):
    pairs.write_text("a\tb\nno tab here\n")
    fails(call("evaluate", "x", "--data", pairs), 1, r".*pairs\.tsv:2: a tab is missing")
    pairs.write_bytes(b"a\tb\ncaf\xe9\tb\n")
    fails(call("evaluate", "x", "--data", pairs), 1, r".*pairs\.tsv:2: invalid UTF-8")
    fails(call("evaluate", "x", "--data", tmp_path / "none.tsv"), 1, r".*none\.tsv: no such file")
    one, two, gap = tmp_path / "one", tmp_path / "two", tmp_path / "gap"
    for path, text in ((one, "a\n"), (two, "a\nb\n"), (gap, "a\n\n")):
        path.write_text(text)
    fails(call("evaluate", "x", "--data", two, "--references", one), 1, ".*one has 1 lines, .*two has 2")
    fails(call("evaluate", "x", "--data", two, "--references", gap), 1, ".*two:2: the source has no reference")
    fails(call("evaluate", "x", "--data", gap, "--references", two), 1, ".*gap:2: the source is empty")
    fails(call("evaluate", "x", "--data", one, "--data", two, "--references", one), 2, "evaluate: With --references")


def test_evaluate_without_sacrebleu_says_how_to_install_it(call, loaded, pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    fails(call("evaluate", "x", "--data", pairs), 1, r'.*sacrebleu.*pip install "keras-attention-zoo\[eval\]"')


def test_export_passes_its_options_on(call, loaded, tmp_path, monkeypatch):
    made = []

    def write(model, path, **options):
        made.append((model is loaded, path, options))
        report = {"path": str(path), "sidecar": f"{path}.json", "size": 3}
        return SimpleNamespace(path=path, sidecar=Path(f"{path}.json"), to_dict=lambda: report)

    monkeypatch.setattr(export, "to_tflite", write)
    monkeypatch.setattr(export, "to_saved_model", write)
    file, folder = tmp_path / "m.tflite", tmp_path / "saved"
    done = call("export", "x", "--to", "tflite", "--out", file, "--quantize", "int8", "--beam", 3, "--signature", "ids")
    assert done == (0, f"{file}\n{file}.json\n", "")
    done = call("export", "x", "--to", "saved_model", "--out", folder, "--json")
    assert json.loads(done.out) == {"path": str(folder), "sidecar": f"{folder}.json", "size": 3}
    call("export", "x", "--to", "saved_model", "--out", folder, "--signature", "ids")
    call("export", "x", "--to", "tflite", "--out", file)
    assert made == [
        (True, file, {"quantize": "int8", "beam_size": 3}),
        (True, folder, {"signature": "text"}),
        (True, folder, {"signature": "ids"}),
        (True, file, {"quantize": None}),
    ]


def test_an_export_that_fails_its_check_is_one_line(call, loaded, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise export.ExportError("The file says\nsomething else.")

    monkeypatch.setattr(export, "to_tflite", refuse)
    done = call("export", "x", "--to", "tflite", "--out", tmp_path / "m.tflite")
    fails(done, 1, "The file says something else")


def test_a_tflite_export_without_litert_says_how_to_install_it(call, loaded, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    done = call("export", "x", "--to", "tflite", "--out", tmp_path / "m.tflite")
    fails(done, 1, r'.*LiteRT.*pip install "keras-attention-zoo\[litert\]"')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--to", "onnx", "--out", "m.onnx"], 1, "This version writes saved_model and tflite, not onnx"),
        (["--to", "tflite", "--out", "m.tflite", "--signature", "text"], 1, "This version writes tflite with .* ids"),
        (["--to", "saved_model", "--out", "m", "--quantize", "int8"], 2, "export: --quantize is for tflite"),
        (["--to", "coreml", "--out", "m"], 2, "export: Invalid value for '--to': "),
        (["--to", "tflite", "--out", "m.tflite", "--quantize", "int4"], 2, "export: Invalid value for '--quantize': "),
        (["--to", "tflite"], 2, "export: Missing option '--out'"),
        (["--to", "tflite", "--out", "none/m.tflite"], 1, "Cannot write into .*none: there is no such folder"),
        (["--to", "saved_model", "--out", "file"], 1, "Cannot make the folder file: there is a file of this name"),
        (["--to", "saved_model", "--out", "file/m"], 1, "Cannot make the folder file/m: .*file is a file"),
        (["--to", "tflite", "--out", "m.tflite", "--beam", "0"], 2, "export: Invalid value for '--beam': "),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_the_model_is_loaded(
    call, not_loaded, tmp_path, monkeypatch, options, status, message
):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    fails(call("export", "x", *options), status, message)


def result(**values):
    usual = {
        "metric": "bleu",
        "best_metric": 12.345,
        "best_step": 3,
        "steps": 4,
        "minutes": 1.25,
        "stopped_because": "done",
    }
    return SimpleNamespace(**{**usual, **values})


def test_train_passes_its_options_on(call, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(session, "train", lambda *args, **options: calls.append((args, options)) or result())
    run = tmp_path / "run"
    files = ["--train", "a.tsv", "--train", "b.tsv", "--valid", "c.tsv", "--tokenizer", tmp_path]
    done = call("train", "nmt_luong", *files, "--out", run, "--set", "training.seed=9", "--set", "optimizer.name=sgd",
                "--no-resume", "--strategy", "one")  # fmt: skip
    assert done == (0, f"bleu 12.35 at step 3 of 4, 1.2 minutes (done)\n{run / 'best'}\n", "")
    (((recipe, out, train, valid), options),) = calls
    assert (recipe.training.seed, recipe.optimizer.name, recipe.model["units"]) == (9, "sgd", 512)
    assert (out, train, valid) == (run, ["a.tsv", "b.tsv"], ["c.tsv"])
    assert options == {"strategy": None, "tokenizer_folder": tmp_path, "resume": False}


def test_a_recipe_is_a_file_or_lies_in_a_folder(call, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(session, "train", lambda recipe, *_, **__: seen.append(recipe) or result())
    (tmp_path / "run").mkdir()
    for path in (tmp_path / "mine.yaml", tmp_path / "run" / "recipe.yaml"):
        path.write_text(RECIPE)
    for name in (tmp_path / "mine.yaml", tmp_path / "run"):
        assert call("train", name, "--out", tmp_path / "new").status == 0
    assert seen == [Recipe.from_yaml(tmp_path / "mine.yaml")] * 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nmt_loung"], 1, r"There is no recipe 'nmt_loung'\. Did you mean nmt_luong(\?| or )"),
        (["none.yaml"], 1, r"none\.yaml: no such recipe"),
        (["none/nmt"], 1, "none/nmt: no such recipe"),
        (["empty"], 1, r"There is no recipe\.yaml in empty"),
        (["wrong.yaml"], 1, r"wrong\.yaml: Unknown key `optimiser`: did you mean `optimizer`\?"),
        (["kind.yaml"], 1, r"kind\.yaml: `training\.steps` is 'x'"),
        (["nmt_luong", "--set", "training.sede=1"], 2, "train: --set: Unknown key `training.sede`: did you mean"),
        (["nmt_luong", "--set", "training.seed"], 2, "train: --set: Cannot read the setting 'training.seed'"),
        (["nmt_luong", "--set", "training.seed=x"], 2, "train: --set: `training.seed` is 'x'"),
        (["nmt_luong", "--strategy", "all"], 2, "train: Invalid value for '--strategy'"),
        (["nmt_luong", "--strategy", "multi-worker"], 1, "--strategy multi-worker needs .* TF_CONFIG"),
        (["nmt_luong"], 1, r"No train file is given, .*--train FILE"),
        (["nmt_luong", "--train", "none.tsv", "--valid", "none.tsv"], 1, r"none\.tsv: no such file"),
    ],
)
def test_a_training_that_cannot_be_is_refused(call, tmp_path, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    Path("empty").mkdir()
    Path("wrong.yaml").write_text("version: 1\nfamily: translation\noptimiser: {}\n")
    Path("kind.yaml").write_text("version: 1\nfamily: translation\ntraining: {steps: x}\n")
    fails(call("train", *arguments, "--out", "run"), status, message)
    assert not Path("run").exists()


def test_a_training_that_fails_or_has_no_place_is_one_line(call, tmp_path, monkeypatch):
    def diverge(*_, **__):
        raise TrainingError("No validation in 9 steps gave a finite loss.")

    monkeypatch.setattr(session, "train", diverge)
    fails(call("train", "nmt_luong", "--out", tmp_path / "run"), 1, "No validation in 9 steps gave a finite loss")
    (tmp_path / "file").write_text("")
    fails(call("train", "nmt_luong", "--out", tmp_path / "file"), 1, "Cannot make the folder .*file")


@pytest.mark.slow
@pytest.mark.ci
def test_a_trained_run_folder_runs_in_a_fresh_process_without_noise(call, tmp_path):
    (tmp_path / "mine.yaml").write_text(RECIPE)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in tiny.PAIRS), "utf-8")
    files = ["--train", tmp_path / "pairs.tsv", "--valid", tmp_path / "pairs.tsv", "--out", tmp_path / "run"]
    done = call("train", tmp_path / "mine.yaml", *files)
    assert done.status == 0
    assert re.fullmatch(rf"loss \S+ at step 2 of 2, .*\n{re.escape(str(tmp_path / 'run' / 'best'))}\n", done.out)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TF_CPP", "KERAS"))}
    environment["PYTHONPATH"] = str(Path(keras_attention.__file__).parents[1])
    command = [sys.executable, "-m", "keras_attention.cli", "run", str(tmp_path / "run"), SOURCES[0], "--beam", "1"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    output = zoo.load(tmp_path / "run").run(SOURCES[0], beam_size=1).output
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{output}\n", "")

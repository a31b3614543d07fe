from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_attention import export
from keras_attention.export import parity, report, runner
from tests.tiny import METADATA, PAIRS, make_model

SENTENCES = [source for source, _ in PAIRS[:3]]
LITERT_WARNINGS = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated:UserWarning")


@pytest.fixture(scope="module")
def model():
    model = make_model()
    model.metadata = {**METADATA, "samples": SENTENCES}
    return model


@pytest.fixture(scope="module")
def greedy_file(model, tmp_path_factory):
    return export.to_tflite(model, tmp_path_factory.mktemp("greedy") / "nmt.tflite")


def ids_of(model, sentence):
    return np.array([model.vectorize({"source": sentence})["source"]], np.int32)


def test_a_tflite_file_says_what_the_model_says_at_every_length(model, greedy_file):
    run = runner.tflite_runner(greedy_file.path, "ids")
    for length in (1, 2, 7, 20):
        source = np.random.default_rng(length).integers(4, 160, (1, length)).astype(np.int32)
        wanted = model.search(tf.constant(source), model.search_options(beam_size=1))
        found = run(source=source)
        np.testing.assert_array_equal(found["ids"], wanted.ids)
        np.testing.assert_array_equal(found["length"], wanted.length)
        np.testing.assert_allclose(found["score"], wanted.score, rtol=1e-4)
        np.testing.assert_allclose(found["attention"], wanted.attention, atol=1e-4)


def test_a_tflite_file_needs_built_in_ops_only(greedy_file):
    from ai_edge_litert.interpreter import Interpreter

    names = {details["op_name"] for details in Interpreter(str(greedy_file.path))._get_ops_details()}
    assert "WHILE" in names
    assert not [name for name in names if name.startswith(("Flex", "CUSTOM"))]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("quantize", "beam_size"), [(None, 3), ("float16", 1), ("float16", 3), ("int8", 1), ("int8", 3)]
)
def test_every_kind_of_tflite_file_passes_its_check(model, tmp_path, quantize, beam_size):
    report = export.to_tflite(model, tmp_path / "nmt.tflite", quantize=quantize, beam_size=beam_size)
    assert report.path.stat().st_size == report.size
    found = runner.run_tflite(report.path, "ids", {"one": {"source": ids_of(model, SENTENCES[0])}})["one"]
    assert found["ids"].shape == (1, beam_size, 32)
    assert found["attention"].shape[:3] == (1, beam_size, 32)
    if quantize is None:
        wanted = model.search(tf.constant(ids_of(model, SENTENCES[0])), model.search_options(beam_size=beam_size))
        np.testing.assert_array_equal(found["ids"], wanted.ids)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "settings", [{"cell": "lstm", "num_layers": 2}, {"feed": "nothing", "score": "concat", "score_units": 8}]
)
def test_other_settings_convert_too(tmp_path, settings):
    report = export.to_tflite(make_model(**settings), tmp_path / "nmt.tflite")
    assert report.checks["equal_outputs"] == 1.0


def test_a_saved_model_runs_where_this_library_is_not_imported(model, tmp_path):
    report = export.to_saved_model(model, tmp_path / "saved", beam_size=2)
    assert report.checks["text"]["equal_outputs"] == 1.0
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "function = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "found = function(text=tf.constant(sys.argv[2:]))\n"
        "assert not [name for name in sys.modules if name.startswith('keras_attention')]\n"
        "print([one.decode() for one in found['text'][:, 0].numpy()])"
    )
    command = [sys.executable, "-c", program, str(report.path), *SENTENCES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wanted = [one.output for one in model.translate(SENTENCES, beam_size=2)]
    assert eval(done.stdout.strip().splitlines()[-1]) == wanted


def test_a_saved_model_of_ids_alone_replaces_an_older_one(model, tmp_path):
    model.translate(SENTENCES[0])  # what a model remembers of its searches is no part of an export
    for _ in range(2):
        report = model.export(tmp_path / "saved", signature="ids")
    assert list(json.loads(report.sidecar.read_text("utf-8"))["signatures"]) == ["ids"]
    source = ids_of(model, SENTENCES[1])
    found = runner.run_saved_model(str(report.path), "serving_default", {"one": {"source": source}})["one"]
    np.testing.assert_array_equal(
        found["ids"], model.search(tf.constant(source), model.search_options(beam_size=1)).ids
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved", "saved.json", "saved.sentencepiece.model"]


def test_the_sidecar_holds_what_an_app_needs(model, greedy_file):
    sidecar = json.loads(greedy_file.sidecar.read_text("utf-8"))
    assert sidecar["special_ids"] == {"pad": 0, "start": 2, "end": 3, "unknown": 1}
    assert sidecar["signatures"]["ids"]["inputs"] == {"source": {"dtype": "int32", "shape": [1, None]}}
    assert sidecar["signatures"]["ids"]["outputs"]["attention"]["shape"] == [1, 1, 32, None]
    tokenizer = greedy_file.path.with_name(sidecar["tokenizer"]["file"])
    assert hashlib.sha256(tokenizer.read_bytes()).hexdigest() == sidecar["tokenizer"]["sha256"]
    assert sidecar["scores"] == METADATA["scores"]
    assert sidecar["checks"]["equal_outputs"] == 1.0


def test_an_export_that_says_something_else_is_not_kept(model, tmp_path, monkeypatch):
    def wrong(kind, path, signature, cases):
        function = model.serving_functions(batch_size=1)["ids"]
        found = {name: {key: value.numpy() for key, value in function(**one).items()} for name, one in cases.items()}
        for one in found.values():
            one["score"] = one["score"] + 0.01
        return found

    monkeypatch.setattr(parity, "run_in_fresh_process", wrong)
    with pytest.raises(export.ExportError, match="does not agree with the model, so it was not kept"):
        export.to_tflite(model, tmp_path / "nmt.tflite")
    assert list(tmp_path.iterdir()) == []


def test_a_reduced_precision_that_costs_too_much_is_not_kept(model, tmp_path, monkeypatch):
    original = parity.run_in_fresh_process

    def poor(*arguments):
        found = original(*arguments)
        for one in found.values():
            one["ids"] = np.where(one["ids"] > 3, 5, one["ids"])
        return found

    monkeypatch.setattr(parity, "run_in_fresh_process", poor)
    with pytest.raises(export.ExportError, match="regret"):
        export.to_tflite(model, tmp_path / "nmt.tflite", quantize="float16")


def test_a_file_that_does_not_run_is_an_error(tmp_path):
    (tmp_path / "broken.tflite").write_bytes(b"TFL3 and nothing else")
    with pytest.raises(export.ExportError, match="does not run"):
        parity.run_in_fresh_process("tflite", tmp_path / "broken.tflite", "ids", {"one": {"source": np.array([[3]])}})


@pytest.mark.parametrize(
    ("path", "options", "kind", "message"),
    [
        ("nmt.lite", {}, ValueError, "must end in .tflite"),
        ("nmt.tflite", {"quantize": "int4"}, ValueError, "`quantize` must be None, 'float16' or 'int8'"),
        ("missing/nmt.tflite", {}, FileNotFoundError, "There is no folder"),
    ],
)
def test_bad_arguments_are_named_before_any_work(model, tmp_path, path, options, kind, message):
    with pytest.raises(kind, match=message):
        export.to_tflite(model, tmp_path / path, **options)


def test_a_folder_of_other_files_is_not_replaced(model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(FileExistsError, match="holds other files"):
        export.to_saved_model(model, tmp_path / "mine")
    with pytest.raises(ValueError, match="`signature` must be 'text' or 'ids'"):
        export.to_saved_model(model, tmp_path / "new", signature="step")


def test_an_unknown_format_is_named(model, tmp_path):
    with pytest.raises(ValueError, match="`format` must be one of 'saved_model', 'tflite'. Received 'onnx'"):
        model.export(tmp_path / "x", format="onnx")


def test_a_move_that_fails_leaves_the_old_export(model, tmp_path):
    old = tmp_path / "saved"
    old.mkdir()
    (old / "saved_model.pb").write_text("old")
    draft = tmp_path / "draft" / "saved_model"
    draft.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        replace = os.replace
        patch.setattr(os, "replace", lambda one, two: replace(one if one != draft else tmp_path / "nothing", two))
        with pytest.raises(FileNotFoundError):
            report.publish(model, draft, old, {})
    assert (old / "saved_model.pb").read_text() == "old"
    assert not (tmp_path / "saved.json").exists()


def test_a_folder_is_not_written_over_a_file(model, tmp_path):
    (tmp_path / "saved").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        export.to_saved_model(model, tmp_path / "saved")


def test_a_missing_litert_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(ImportError, match=r"keras-attention-zoo\[litert\]"):
        export.to_tflite(model, tmp_path / "nmt.tflite")


def test_the_plain_python_kit_says_what_the_model_says(model, greedy_file):
    kit = Path(__file__).parents[2] / "export" / "litert_python" / "translate.py"
    done = subprocess.run(
        [sys.executable, str(kit), str(greedy_file.path), *SENTENCES], capture_output=True, text=True, check=True
    )
    wanted = [one.output for one in model.translate(SENTENCES, beam_size=1)]
    assert [line.strip() for line in done.stdout.splitlines()] == [line.strip() for line in wanted]

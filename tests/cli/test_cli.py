"""The commands that need no model, and the frame of all: statuses, streams, help."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_attention
from keras_attention.cli import app, listing, tensorflow_models

COMMANDS = ("list", "show", "run", "train", "evaluate", "export", "tensorboard")


def in_process(code: str, *arguments, **options) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(Path(keras_attention.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], env=environment, check=False, **options)


LIST_IN = """
import sys
from pathlib import Path
from keras_attention import zoo
zoo.data_folder = lambda name: Path(sys.argv[1])
from keras_attention.cli import main
status = main(["list"])
heavy = {"tensorflow", "keras", "numpy", "matplotlib", "typer", "rich"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else status)
"""


def test_list_loads_nothing_heavy_and_is_quick(bundled):
    resource = pytest.importorskip("resource")
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = in_process(LIST_IN, bundled, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert (done.returncode, done.stderr) == (0, "")
        assert "nmt_tiny" in done.stdout
    assert min(seconds) < 0.3  # of a processor; the clock on the wall knows what else runs


def test_list_shows_a_table(call, bundled):
    done = call("list")
    header, row = done.out.splitlines()
    assert (done.status, done.err) == (0, "")
    assert re.split("  +", header) == ["ENTRY", "TASK", "SIZE", "LICENCE", "SCORE"]
    size = sum(path.stat().st_size for path in (bundled / "nmt_tiny").rglob("*") if path.is_file())
    assert re.split("  +", row) == ["nmt_tiny", "translation", listing.size(size), "Apache-2.0", "BLEU 0.0 (none)"]
    assert header.index("SCORE") == row.index("BLEU")


def test_sizes_are_written_for_people():
    assert [listing.size(count) for count in (0, 1_234, 99_999, 100_000, 15_960_000)] == [
        "0.0 kB", "1.2 kB", "100.0 kB", "0.1 MB", "16.0 MB",
    ]  # fmt: skip


def test_list_as_json_has_all_of_each_entry(call, bundled):
    done = call("list", "--json")
    (entry,) = json.loads(done.out)
    assert (entry["name"], entry["weights_license"], entry["path"]) == (
        "nmt_tiny",
        "Apache-2.0",
        str(bundled / "nmt_tiny"),
    )
    assert {"task", "family", "description", "parameters", "size_bytes", "headline"} < set(entry)


@pytest.mark.filterwarnings("default")
def test_a_damaged_entry_is_told_on_stderr_and_the_others_are_listed(call, bundled):
    (bundled / "broken").mkdir()
    (bundled / "broken" / "config.json").write_text('{"family": "translation"}')
    done = call("list")
    assert done.status == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["ENTRY", "nmt_tiny"]
    assert re.fullmatch(r"keras-attention: warning: The entry broken is damaged: .*metadata\.json.*\n", done.err)


def test_show_prints_the_card(call, bundled):
    assert call("show", "nmt_tiny") == (0, (bundled / "nmt_tiny" / "README.md").read_text("utf-8"), "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(call, command):
    done = call(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Usage: keras-attention {command}" in done.out
    examples = done.out.partition("Example:\n")[2].splitlines()
    assert examples
    assert all(re.match(rf"    keras-attention {command}\b", line) for line in examples)


def test_the_commands_are_these(call):
    listed = re.search(r"Commands:\n(.*?)\n\n", call("--help").out, re.DOTALL)[1]
    assert tuple(line.split()[0] for line in listed.splitlines() if line.startswith("  ")) == COMMANDS


def test_no_command_is_misuse_and_shows_the_help(call):
    done = call()
    assert (done.status, done.out) == (2, "")
    assert "Usage: keras-attention" in done.err


def test_version(call):
    assert call("--version") == (0, f"keras-attention {keras_attention.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "No such command 'lst'.* See `keras-attention --help`."),
        (["list", "--jsn"], "list: No such option: --jsn.* See `keras-attention list --help`."),
        (["show"], "show: Missing argument 'ENTRY'. See `keras-attention show --help`."),
        (["tensorboard", "x", "--port", "a"], "tensorboard: Invalid value for '--port': .*"),
    ],
)
def test_misuse_is_one_line_and_status_2(call, arguments, message):
    done = call(*arguments)
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(f"keras-attention: {message}\n", done.err)


@pytest.mark.parametrize("command", [["show"], ["run", "--beam", "1", "Hello."], ["evaluate", "--data", "x.tsv"]])
def test_an_unknown_entry_names_the_nearest_before_tensorflow_is_imported(call, bundled, monkeypatch, command):
    monkeypatch.setattr(tensorflow_models, "prepare", lambda: pytest.fail("TensorFlow was imported"))
    done = call(command[0], "nmt_tinny", *command[1:])
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(r"keras-attention: There is no entry 'nmt_tinny' .*Did you mean nmt_tiny\? .*\n", done.err)


def test_an_interrupt_is_quiet(call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tensorflow_models, "load", interrupted)
    assert call("run", "x", "Hello.") == (130, "", "")
    monkeypatch.setattr(listing, "show", interrupted)
    assert call("list") == (130, "", "")


def test_a_bug_keeps_its_traceback(call, monkeypatch):
    def broken(entry):
        raise AttributeError("a bug")

    monkeypatch.setattr(tensorflow_models, "load", broken)
    with pytest.raises(AttributeError, match="a bug"):
        call("run", "x", "Hello.")


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_reader_that_has_gone_is_no_error_to_tell():
    reader, writer = os.pipe()
    os.close(reader)
    for argument in ("list", "--help"):
        done = in_process("import sys; from keras_attention.cli import main; sys.exit(main(sys.argv[1:]))", argument,
                          stdout=writer, stderr=subprocess.PIPE)  # fmt: skip
        assert (done.returncode, done.stderr) == (1, b"")
    os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = in_process("import sys; from keras_attention.cli import main; sys.exit(main(['list']))",
                          stdout=full, stderr=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(rb"keras-attention: .*No space left on device\n", done.stderr)


def test_startup_messages_of_libraries_are_held_back_unless_the_import_fails():
    code = """
import os
from keras_attention.cli import tensorflow_models
with tensorflow_models._held_back():
    os.write(2, b"lost")
os.write(2, b"kept,")
try:
    with tensorflow_models._held_back():
        os.write(2, b"why")
        raise ImportError
except ImportError:
    os.write(2, b",after")
"""
    assert in_process(code, stderr=subprocess.PIPE).stderr == b"kept,why,after"


def test_tensorboard_starts_on_the_events_of_a_run(call, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(app.subprocess, "call", lambda command: started.append(command) or 0)
    (tmp_path / "run" / "tensorboard").mkdir(parents=True)
    assert call("tensorboard", tmp_path / "run", "--port", 0).status == 0
    assert call("tensorboard", tmp_path / "run" / "tensorboard").status == 0
    wanted = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path / "run" / "tensorboard"), "--port"]
    assert started == [[*wanted, "0"], [*wanted, "6006"]]
    done = call("tensorboard", tmp_path / "rn")
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(r"keras-attention: There is no folder .*rn\. .*\n", done.err)

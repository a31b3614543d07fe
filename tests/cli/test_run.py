from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_attention import cli
from keras_attention.cli import running
from keras_attention.maps import AttentionMap
from keras_attention.models import Prediction

TEXT, OTHER = "Where is the library?", "It is raining again."
LONG = "the " * 40
PREDICTION = Prediction("yes", 1.0)


def outputs(model, *texts, **options) -> list[str]:
    return [one.output for one in model.run(list(texts), beam_size=1, **options)]


def test_texts_give_a_line_each(call, loaded):
    done = call("run", "tiny", TEXT, OTHER, "--beam", 1)
    assert done == (0, "".join(f"{line}\n" for line in outputs(loaded, TEXT, OTHER)), "")
    assert len(set(done.out.splitlines())) == 2


def test_a_folder_is_opened(call, preset, model):
    assert call("run", preset, TEXT, "--beam", 1) == (0, outputs(model, TEXT)[0] + "\n", "")


def test_the_options_reach_the_search(call, loaded):
    done = call("run", "tiny", TEXT, "--beam", 3, "--n-best", 2, "--length-penalty", 0.5, "--max-length", 9)
    wanted = loaded.run(TEXT, beam_size=3, n_best=2, length_penalty=0.5, max_length=9)
    best, second = wanted, wanted.alternatives[0]
    assert done.out == f"{best.score:.4f}\t{best.output}\n{second.score:.4f}\t{second.output}\n"
    assert call("run", "tiny", TEXT).out == loaded.run(TEXT).output + "\n"


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (
            ["--beam", 2, "--coverage-penalty", 0.4, "--min-length", 4, "--no-repeat-ngram", 2],
            {"beam_size": 2, "coverage_penalty": 0.4, "min_length": 4, "no_repeat_ngram": 2},
        ),
        (
            ["--temperature", 1.5, "--top-k", 40, "--top-p", 0.9, "--seed", 3, "--n-best", 2],
            {"temperature": 1.5, "top_k": 40, "top_p": 0.9, "seed": 3, "n_best": 2},
        ),
    ],
    ids=["searched", "drawn"],
)
def test_all_options_of_the_search_have_a_flag(call, loaded, flags, options):
    done = call("run", "tiny", TEXT, OTHER, *flags, "--json")
    found, wanted = [json.loads(line) for line in done.out.splitlines()], loaded.run([TEXT, OTHER], **options)
    assert [one["output"] for one in found] == [one.output for one in wanted]
    assert [one["score"] for one in found] == pytest.approx([one.score for one in wanted])
    assert [one["output"] for one in found] != [one.output for one in loaded.run([TEXT, OTHER], beam_size=2)]


def test_every_search_option_is_a_flag():
    from dataclasses import fields

    from keras_attention.cli.search_flags import SearchFlags
    from keras_attention.models.search_options import SearchOptions

    assert {one.name for one in fields(SearchFlags)} == {one.name for one in fields(SearchOptions)} - {"attention"}


def test_a_given_output_is_scored(call, loaded):
    done = call("run", "tiny", TEXT, "--target", "Il pleut.", "--json", "--length-penalty", 0)
    (values,) = [json.loads(line) for line in done.out.splitlines()]
    ids = [loaded.vectorize({"source": TEXT, "target": "Il pleut."})[name] for name in ("source", "target")]
    assert values["output"] == "Il pleut."
    assert values["score"] == pytest.approx(
        float(loaded.force(*(np.array([one], np.int32) for one in ids)).log_probability[0, 0])
    )
    assert values["attention"][0]["rows"] == loaded.tokenizer.tokens(ids[1])


def test_given_outputs_of_a_file_stay_beside_their_inputs(call, loaded, tmp_path):
    (tmp_path / "in.txt").write_text(f"{TEXT}\n\n{OTHER}\n")
    (tmp_path / "out.txt").write_text("Il pleut.\n\nElle ne sait pas.\n")
    done = call("run", "x", "--file", tmp_path / "in.txt", "--targets", tmp_path / "out.txt")
    assert done.out == "Il pleut.\n\nElle ne sait pas.\n"
    assert "1 empty line gave empty output" in done.err
    (tmp_path / "out.txt").write_text("Il pleut.\n\n\n")
    done = call("run", "x", "--file", tmp_path / "in.txt", "--targets", tmp_path / "out.txt")
    assert (done.status, done.out) == (1, "")
    assert re.search(r"out\.txt:3 is empty. Expected the output of .*in\.txt:3", done.err)


def test_json_has_all_that_was_found(call, loaded):
    done = call("run", "tiny", TEXT, OTHER, "--beam", 3, "--n-best", 2, "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    wanted = loaded.run([TEXT, OTHER], beam_size=3, n_best=2)
    assert (done.status, done.err, len(found)) == (0, "", 2)
    for values, text, prediction in zip(found, (TEXT, OTHER), wanted, strict=True):
        (seen,), (second,) = prediction.attention, prediction.alternatives
        assert list(values) == ["input", "output", "score", "attention", "alternatives"]
        assert (values["input"], values["output"]) == (text, prediction.output)
        assert values["score"] == pytest.approx(prediction.score)
        (plain,) = values["attention"]
        assert set(plain) == {"name", "rows", "columns", "weights"}
        assert (plain["rows"], plain["columns"]) == (list(seen.rows), list(seen.columns))
        np.testing.assert_allclose(plain["weights"], seen.weights, atol=1e-6)
        (alternative,) = values["alternatives"]
        assert set(alternative) == {"output", "score", "attention"}
        assert alternative["output"] == second.output
        assert alternative["attention"][0]["rows"] == list(second.attention[0].rows)


def test_attention_is_computed_only_where_it_is_asked_for(call, loaded, monkeypatch, tmp_path):
    asked = []

    def run(texts, **options):
        asked.append(options["attention"])
        return []

    monkeypatch.setattr(type(loaded), "run", lambda self, texts, **options: run(texts, **options))
    monkeypatch.setattr(
        "keras_attention.cli.running.predicted", lambda model, inputs, options: model.run([], **options)
    )
    for more in ([], ["--json"], ["--attention", "-"], ["--attention", tmp_path / "a.png"]):
        monkeypatch.setattr("keras_attention.cli.running.rendered", lambda *_: [])
        monkeypatch.setattr("keras_attention.cli.running.draw", lambda *_: None)
        assert call("run", "tiny", TEXT, *more).status == 0
    assert asked == [False, True, True, True]


def test_a_map_for_the_terminal_stands_below_the_output(call, loaded):
    done = call("run", "tiny", TEXT, "--beam", 1, "--attention", "-")
    (seen,) = loaded.run(TEXT, beam_size=1).attention
    assert done.out == f"{outputs(loaded, TEXT)[0]}\n{seen.text(color=False)}\n\n"


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".html", b"<!DOCTYPE html>")])
def test_maps_are_drawn_into_files(call, loaded, tmp_path, suffix, start):
    single = tmp_path / f"map{suffix}"
    assert call("run", "tiny", TEXT, "--beam", 1, "--attention", single)[::2] == (0, "")
    assert single.read_bytes()[: len(start)].lower() == start.lower()


def test_maps_of_several_inputs_are_numbered_by_the_inputs(call, loaded, tmp_path):
    (tmp_path / "in.txt").write_text(f"{TEXT}\n\n{OTHER}\n")
    assert call("run", "x", "--file", tmp_path / "in.txt", "--beam", 1, "--attention", tmp_path / "m.html").status == 0
    assert sorted(path.name for path in tmp_path.glob("m*")) == ["m-1.html", "m-3.html"]
    assert "raining" not in (tmp_path / "m-1.html").read_text("utf-8").replace("▁", "")


def test_several_maps_of_one_input_carry_their_names(tmp_path):
    from keras_attention.cli import running

    maps = [AttentionMap(name, "layer", "dot", np.eye(2), ["a", "b"], ["c", "d"]) for name in ("words", "sentences")]
    running.draw([SimpleNamespace(attention=maps)], [tmp_path / "m.html"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m-sentences.html", "m-words.html"]


def test_standard_input_is_read(call, loaded, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(f"{OTHER}\r\n{TEXT}".encode())))
    assert call("run", "x", "--file", "-", "--beam", 1).out.splitlines() == outputs(loaded, OTHER, TEXT)


def test_the_output_file_is_written_whole(call, loaded, tmp_path):
    (tmp_path / "in.txt").write_text(f"{TEXT}\n{OTHER}\n")
    (tmp_path / "out.txt").write_text("old")
    assert call("run", "x", "--file", tmp_path / "in.txt", "--out", tmp_path / "out.txt", "--beam", 1) == (0, "", "")
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines() == outputs(loaded, TEXT, OTHER)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_an_empty_line_stays_in_place_and_is_told(call, loaded, tmp_path):
    (tmp_path / "in.txt").write_text(f"\n{TEXT}\n \u00a0\n{OTHER}\n")
    done = call("run", "x", "--file", tmp_path / "in.txt", "--beam", 1)
    first, second = outputs(loaded, TEXT, OTHER)
    assert done.out == f"\n{first}\n\n{second}\n"
    assert (
        done.err == f"keras-attention: warning: 2 empty lines gave empty output; the first: {tmp_path / 'in.txt'}:1\n"
    )
    rows = [
        json.loads(line)
        for line in call("run", "x", "--file", tmp_path / "in.txt", "--beam", 1, "--json").out.splitlines()
    ]
    assert rows[0] == {"input": "", "output": "", "score": None, "attention": [], "alternatives": []}
    assert [row["output"] for row in rows] == ["", first, "", second]


def test_bad_lines_are_refused_or_left_empty(call, loaded, tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes(f"{TEXT}\n{LONG}\n".encode() + b"caf\xe9\n" + f"{OTHER}\n".encode())
    done = call("run", "x", "--file", file, "--beam", 1)
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(rf"keras-attention: {re.escape(str(file))}:3: invalid UTF-8 at byte 4 .*\n", done.err)
    done = call("run", "x", "--file", file, "--beam", 1, "--skip-bad")
    first, last = outputs(loaded, TEXT, OTHER)
    assert (done.status, done.out) == (0, f"{first}\n\n\n{last}\n")
    assert re.fullmatch(
        rf"keras-attention: warning: 2 bad lines .*: {re.escape(str(file))}:2: The source has .*\n", done.err
    )
    file.write_text(f"{TEXT}\n{LONG}\n")
    done = call("run", "x", "--file", file, "--beam", 1)
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(rf"keras-attention: {re.escape(str(file))}:2: The source has \d+ pieces.*\n", done.err)


LINES = st.one_of(st.sampled_from(["", " ", "\t"]), st.text(alphabet="the raing.?é\u2028\x85", min_size=1, max_size=12))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=6), ended=st.booleans())
def test_every_line_has_its_output_line(loaded, tmp_path, lines, ended):
    ended = ended or lines[-1] == ""  # a last line without end and without text is none
    (tmp_path / "in.txt").write_bytes(("\n".join(lines) + "\n" * ended).encode())
    assert (
        cli.main(["run", "x", "--file", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt"), "--beam", "1"])
        == 0
    )
    found = (tmp_path / "out.txt").read_bytes().decode().removesuffix("\n").split("\n")
    texts = [line for line in lines if line.strip()]
    answers = iter(outputs(loaded, *texts, attention=False))
    assert found == [next(answers) if line.strip() else "" for line in lines]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "run: Give either TEXT or --file F"),
        (["Hi.", "--file", "{in}"], 2, "run: Give either TEXT or --file F"),
        ([""], 1, "TEXT is empty"),
        (["Hi.", " \u00a0"], 1, "TEXT 2 is empty"),
        (["caf\udce9"], 1, "TEXT is not UTF-8"),
        (["Hi.", "--beam", "0"], 2, "run: Invalid value for '--beam': .*1"),
        (["Hi.", "--beam", "2", "--n-best", "3"], 2, "run: --n-best 3 is more than --beam 2"),
        (["Hi.", "--length-penalty", "inf"], 2, "run: --length-penalty inf is not a finite number"),
        (["Hi.", "--coverage-penalty", "inf"], 2, "run: --coverage-penalty inf is not a finite number"),
        (["Hi.", "--top-k", "4"], 2, "run: --top-k is for outputs that are drawn. Give --temperature too"),
        (["Hi.", "--seed", "4"], 2, "run: --seed is for outputs that are drawn"),
        (["Hi.", "--temperature", "0"], 2, "run: --temperature 0.0 must be above 0"),
        (["Hi.", "--temperature", "1", "--top-p", "1.5"], 2, r"run: --top-p 1\.5 is no share of probability"),
        (["Hi.", "--temperature", "1", "--beam", "2"], 2, "run: --temperature draws, --beam 2 searches"),
        (["Hi.", "--min-length", "9", "--max-length", "9"], 2, "run: --min-length 9 must be less than --max-length 9"),
        (["Hi.", "--target", "A.", "--beam", "2"], 2, "run: --beam is of a search, but --target gives the output"),
        (["Hi.", "--target", "A.", "--n-best", "2", "--beam", "2"], 2, "run: --beam is of a search"),
        (["Hi.", "--targets", "{in}"], 2, "run: --target goes with TEXT, --targets with --file"),
        (["--file", "{in}", "--target", "A."], 2, "run: --target goes with TEXT, --targets with --file"),
        (["Hi.", "Ho.", "--target", "A."], 1, "There are 2 inputs and 1 outputs to score"),
        (["Hi.", "--target", " "], 1, "--target is empty. Expected at least one word"),
        (["--file", "{in}", "--targets", "{tmp}/none.txt"], 1, r".*none\.txt: no such file"),
        (["Hi.", "--colour"], 2, "run: No such option: --colour"),
        (["Hi.", "--json", "--attention", "-"], 2, "run: --json and --attention - both want stdout"),
        (["Hi.", "--attention", "map.gif"], 2, r"run: --attention 'map\.gif' must end in \.png"),
        (["Hi.", "--attention", "{tmp}/none/map.png"], 1, "Cannot write into .*none: there is no such folder"),
        (["Hi.", "--out", "{tmp}/none/out.txt"], 1, "Cannot write into .*none: there is no such folder"),
        (["Hi.", "--out", "{tmp}"], 1, "Cannot write .*: it is a folder"),
        (["Hi.", "--out", "{in}/out.txt"], 1, r"Cannot write into .*in\.txt: .* is a file"),
        (["--file", "{tmp}/none.txt"], 1, r".*none\.txt: no such file"),
        (["--file", "{tmp}"], 1, ".*: this is a folder"),
        (["--file", "{cut}"], 1, r".*cut\.txt\.gz:.* the gzip data is damaged, cut short"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_before_the_model_is_loaded(call, not_loaded, tmp_path, arguments, status, message):
    import gzip

    (tmp_path / "in.txt").write_text("Hi.\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(TEXT.encode() * 50)[:-12])
    names = {"tmp": tmp_path, "in": tmp_path / "in.txt", "cut": tmp_path / "cut.txt.gz"}
    done = call("run", "x", *(re.sub(r"\{(\w+)\}", lambda name: str(names[name[1]]), text) for text in arguments))
    assert (done.status, done.out) == (status, "")
    assert re.fullmatch(f"keras-attention: {message}.*\n", done.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([LONG], "TEXT: The source has .* pieces"),
        ([TEXT, "--beam", "100"], "`beam_size` must be an int from 1 to 80"),
        ([TEXT, "--replace-unknown"], "`replace_unknown` copies words of the input, but the vocabulary"),
        ([TEXT, "--target", LONG], "TEXT: The target has .* pieces"),
    ],
)
def test_what_only_the_model_can_tell_is_one_line_too(call, loaded, arguments, message):
    done = call("run", "x", *arguments)
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(f"keras-attention: {message}.*\n", done.err)


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        (2, ("One.",), "TEXT: this model reads source and target, and 1 of them is given. Give TEXT and --with TEXT"),
        (2, ("One.", "--target", "Un."), "This model reads source and target, and writes no text that --target"),
        (
            2,
            ("One.", "--with", "Un.", "--with", "Deux."),
            "TEXT: this model reads source and target, and 3 of them are",
        ),
        (2, ("One.", "Two.", "--with", "Un."), "There are 2 inputs and 1 --with. Expected as many for each input"),
        (1, ("One.", "--with", "Un."), "TEXT: --with is for a second column, and this model reads one, source."),
    ],
)
def test_columns_that_do_not_fit_the_model_are_one_line(call, loaded, monkeypatch, columns, arguments, message):
    monkeypatch.setattr(type(loaded), "input_columns", columns)
    done = call("run", "x", *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"keras-attention: {message}")


def test_two_columns_come_from_two_arguments_or_from_a_line(call, loaded, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(type(loaded), "input_columns", 2)
    monkeypatch.setattr(
        loaded, "predict_examples", lambda rows, **options: seen.extend(rows) or [PREDICTION] * len(rows)
    )
    file = tmp_path / "in.tsv"
    file.write_text("One.\tUn.\nTwo.\tDeux.\n", "utf-8")
    assert call("run", "x", "One.", "Two.", "--with", "Un.", "--with", "Deux.").out == "yes\nyes\n"
    assert call("run", "x", "--file", str(file)).out == "yes\nyes\n"
    assert seen[:2] == seen[2:] == [{"source": "One.", "target": "Un."}, {"source": "Two.", "target": "Deux."}]


def test_three_columns_come_from_three_arguments_or_from_a_line():
    given = running.from_arguments(["One.", "Two."])
    one, two = running.with_further(given, ["Un.", "Eins.", "Deux.", "Zwei."])
    wanted = ("source", "target", "third")
    assert one.columns(wanted) == {"source": "One.", "target": "Un.", "third": "Eins."}
    assert two.columns(wanted) == running.Input("Two.\tDeux.\tZwei.", "TEXT").columns(wanted)
    assert json.loads(running.json_line(two, None))["with"] == ["Deux.", "Zwei."]
    assert json.loads(running.json_line(running.Input("a", "TEXT", beside=("b",)), None))["with"] == "b"
    with pytest.raises(ValueError, match="and 1 of them is given. Give TEXT and --with TEXT and --with TEXT, or lines"):
        given[0].columns(wanted)


def test_a_whole_file_is_one_input(call, loaded, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(loaded, "predict_examples", lambda rows, **options: seen.extend(rows) or [PREDICTION])
    file = tmp_path / "document.txt"
    file.write_text("One.\n\nTwo.\n", "utf-8")
    assert call("run", "x", "--file", str(file), "--whole").out == "yes\n"
    assert seen == [{"source": "One.\n\nTwo."}]
    file.write_text("\n \n", "utf-8")
    assert "is empty. Expected at least one word." in call("run", "x", "--file", str(file), "--whole").err


@pytest.mark.parametrize("arguments", [("One.", "--whole"), ("--file", "-", "--with", "Un.")])
def test_flags_of_arguments_and_of_files_do_not_mix(call, not_loaded, arguments):
    done = call("run", "x", *arguments)
    assert (done.status, done.out) == (2, "")
    assert "--with goes with TEXT, --whole with --file" in done.err


def test_tagged_words_are_printed_as_words_and_tags():
    assert running.as_line([("The", "DET"), ("cat", "NOUN")]) == "The/DET cat/NOUN"
    assert running.as_line("text") == "text"


def test_an_option_that_the_task_does_not_have_is_misuse(call, loaded, monkeypatch):
    monkeypatch.setattr(loaded, "predict_examples", lambda rows, attention=True, n_best=1: [PREDICTION])
    done = call("run", "x", TEXT, "--beam", "3")
    assert (done.status, done.out) == (2, "")
    assert "`translate` has no option 'beam_size'. Expected some of attention, n_best." in done.err


def change(path: Path, update) -> None:
    values = json.loads(path.read_text("utf-8"))
    update(values)
    path.write_text(json.dumps(values), "utf-8")


@pytest.mark.parametrize(
    ("whole", "message"),
    [(False, r"config\.json is not the file .* SHA-256 differs"), (True, "Unknown key 'unitz'.* 'units'")],
)
def test_a_damaged_preset_is_one_line(call, preset, tmp_path, whole, message):
    import hashlib
    import shutil

    folder = shutil.copytree(preset, tmp_path / "preset")
    change(folder / "config.json", lambda values: values["model"].update(unitz=values["model"].pop("units")))
    if whole:
        digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
        change(folder / "metadata.json", lambda values: values["files"].update({"config.json": digest}))
    done = call("run", folder, TEXT)
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(f"keras-attention: .*{message}.*\n", done.err)

from __future__ import annotations

import hashlib
import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_attention import preset_hashes, zoo
from keras_attention.resources import data_folder
from tests import tiny

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def preset(tmp_path_factory) -> Path:
    return tiny.make_preset(tmp_path_factory.mktemp("zoo") / "preset")


@pytest.fixture
def bundled(preset, tmp_path, monkeypatch) -> Path:
    """A zoo of one whole entry, of which the code knows the hash."""
    folder = tmp_path / "zoo"
    shutil.copytree(preset, folder / "nmt_tiny.noise")
    monkeypatch.setattr(zoo, "data_folder", lambda name: folder)
    monkeypatch.setattr(zoo, "METADATA_SHA256", preset_hashes.computed(folder))
    return folder


def change(path: Path, **values) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def test_the_code_has_the_hash_of_every_bundled_preset_and_of_no_other():
    assert preset_hashes.computed(data_folder("zoo")) == preset_hashes.METADATA_SHA256
    assert set(preset_hashes.METADATA_SHA256) == set(zoo.names())


def test_every_bundled_preset_is_listed_whole():
    entries = zoo.list()  # a damaged one would warn, and a warning is an error here
    assert [entry.name for entry in entries] == sorted(preset_hashes.METADATA_SHA256)
    for entry in entries:
        assert entry.headline
        assert len(zoo.card(entry.name)) > 200


def test_an_entry_tells_what_its_files_tell(bundled):
    (entry,) = zoo.list()
    files = [path for path in (bundled / "nmt_tiny.noise").rglob("*") if path.is_file()]
    model = tiny.make_model()
    assert entry == zoo.Entry(
        name="nmt_tiny.noise",
        task="translation",
        family="translation",
        description=tiny.METADATA["description"],
        parameters=sum(int(np.prod(weight.shape)) for weight in model.weights),
        size_bytes=sum(len(path.read_bytes()) for path in files),
        weights_license="Apache-2.0",
        headline="BLEU 0.0 (none)",
        path=bundled / "nmt_tiny.noise",
    )
    assert len(files) == 5  # config, metadata, weights, tokenizer, card


def test_shared_and_hidden_folders_are_no_entries(bundled):
    for name in ("_shared", ".cache"):
        shutil.copytree(bundled / "nmt_tiny.noise", bundled / name)
    (bundled / "empty").mkdir()
    (bundled / "README.md").write_text("no folder")
    assert zoo.names() == ("nmt_tiny.noise",)
    assert set(preset_hashes.computed(bundled)) == {"nmt_tiny.noise"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "metadata.json").unlink(), "broken is damaged: .*metadata.json"),
        (lambda folder: (folder / "metadata.json").write_text("{"), "metadata.json is not JSON"),
        (lambda folder: (folder / "metadata.json").write_text("[]"), "metadata.json holds no JSON object"),
        (lambda folder: (folder / "metadata.json").write_text("{}"), "'task' is missing in metadata.json"),
        (lambda folder: (folder / "config.json").write_text("{}"), "'family' is missing in config.json"),
        (lambda folder: (folder / "config.json").write_bytes(b"\xff"), "config.json is not JSON in UTF-8"),
        (lambda folder: change(folder / "metadata.json", headline=3), "'headline' is of the wrong type"),
        (lambda folder: change(folder / "metadata.json", parameters="3"), "'parameters' is of the wrong type"),
    ],
)
def test_a_damaged_entry_does_not_hide_the_others(bundled, damage, message):
    shutil.copytree(bundled / "nmt_tiny.noise", bundled / "broken")
    damage(bundled / "broken")
    with pytest.warns(UserWarning, match=message):
        entries = zoo.list()
    assert [entry.name for entry in entries] == ["nmt_tiny.noise"]


def test_a_name_a_folder_and_a_run_folder_open_the_same_model(bundled, preset, tmp_path):
    shutil.copytree(preset, tmp_path / "run" / "best")
    (tmp_path / "run" / "recipe.yaml").write_text("version: 1\n")
    wanted = {weight.path: weight.numpy() for weight in tiny.make_model().weights}
    for source in ("nmt_tiny.noise", str(preset), preset, tmp_path / "run"):
        model = zoo.load(source)
        assert {weight.path for weight in model.weights} == set(wanted)
        for weight in model.weights:
            np.testing.assert_array_equal(weight.numpy(), wanted[weight.path])
        assert model.metadata["headline"] == "BLEU 0.0 (none)"
        assert model.tokenizer.encode("Where") == tiny.make_model().tokenizer.encode("Where")


def test_a_folder_that_holds_a_preset_goes_before_an_entry(bundled, preset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "nmt_tiny.noise"
    (tmp_path / name).mkdir()
    assert zoo.find(name) == bundled / name
    shutil.copytree(preset, tmp_path / name, dirs_exist_ok=True)
    assert zoo.find(name) == Path(name)


def test_saving_what_was_loaded_keeps_it(preset, tmp_path):
    model = zoo.load(preset)
    assert zoo.save(model, tmp_path / "again", {"headline": "new"}) == tmp_path / "again"
    assert (tmp_path / "again/model.safetensors").read_bytes() == (preset / "model.safetensors").read_bytes()
    assert zoo.load(tmp_path / "again").metadata["headline"] == "new"


def test_the_dtype_reaches_the_model(preset):
    assert zoo.load(preset, dtype="mixed_bfloat16").compute_dtype == "bfloat16"


def test_an_unknown_entry_names_the_nearest_and_all(bundled):
    with pytest.raises(
        zoo.UnknownEntryError, match=r"no entry 'nmt_tinny'.*Did you mean nmt_tiny.noise\?.*one of nmt_"
    ):
        zoo.load("nmt_tinny")
    for name in ("", "quite different"):
        with pytest.raises(zoo.UnknownEntryError, match=rf"'{name}' in the zoo\. Expected one of nmt_tiny.noise, or"):
            zoo.load(name)
    assert issubclass(zoo.UnknownEntryError, ValueError)


def test_a_path_without_a_preset_says_what_is_there(bundled, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("version: 1\n")
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nmt_tiny\.noise/x\. Expected one that"):
        zoo.load("nmt_tiny.noise/x")
    with pytest.raises(FileNotFoundError, match=r"There is no folder nmt_tiny.noise"):
        zoo.load(Path("nmt_tiny.noise"))
    with pytest.raises(FileNotFoundError, match=r"no preset in .*empty: it has no config.json"):
        zoo.load(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"no preset in .*run: its training has not saved a model yet"):
        zoo.load(tmp_path / "run")
    with pytest.raises(NotADirectoryError, match=r"README.md is a file. Expected the folder of a preset"):
        zoo.load(bundled / "nmt_tiny.noise" / "README.md")
    with pytest.raises(TypeError, match=r"Received 3. Expected the name"):
        zoo.load(3)


def test_the_hash_in_the_code_decides_for_bundled_presets_alone(bundled, monkeypatch):
    folder = bundled / "nmt_tiny.noise"
    change(folder / "metadata.json", headline="BLEU 99")
    with pytest.raises(zoo.PresetError, match=r"metadata.json is not the file of this release: its SHA-256 differs"):
        zoo.load("nmt_tiny.noise")
    assert zoo.load(folder).metadata["headline"] == "BLEU 99"
    monkeypatch.setattr(zoo, "METADATA_SHA256", {})
    with pytest.raises(zoo.PresetError, match=r"nmt_tiny.noise has no hash in this release"):
        zoo.load("nmt_tiny.noise")


def test_a_card_is_the_readme_of_the_preset(bundled, tmp_path):
    assert zoo.card("nmt_tiny.noise") == zoo.card(bundled / "nmt_tiny.noise") == tiny.CARD
    (bundled / "nmt_tiny.noise" / "README.md").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no card: there is no .*README.md"):
        zoo.card("nmt_tiny.noise")


def test_the_table_of_hashes_is_written_again_and_again(bundled):
    source = Path(preset_hashes.__file__).read_text("utf-8")
    digest = hashlib.sha256((bundled / "nmt_tiny.noise/metadata.json").read_bytes()).hexdigest()
    table = preset_hashes.computed(bundled)
    assert table == {"nmt_tiny.noise": digest}
    once = preset_hashes.rewritten(source, table)
    names: dict = {"__name__": "rewritten"}
    exec(compile(once, "rewritten", "exec"), names)
    assert names["METADATA_SHA256"] == table
    assert preset_hashes.rewritten(once, table) == once
    assert preset_hashes.rewritten(once, preset_hashes.METADATA_SHA256) == source


MULTI30K = ("nmt_luong.multi30k", "nmt_bahdanau", "nmt_local", "nmt_local.monotonic", "nmt_hard", "nmt_seq2seq")
UNDERSTANDING = (
    "classify_",
    "cloze_",
    "entail_",
    "qa_",
    "relate_",
    "tag_",
)
BUDGET = {  # bytes of an entry
    "nmt_luong": 16 * 2**20,
    **dict.fromkeys((*MULTI30K, "nmt_transformer"), 8_000_000),
    **{name: 2_500_000 for name in zoo.names() if name.startswith(UNDERSTANDING)},
}
UNDERSTANDING_BUDGET = 14_000_000  # bytes of the weights of those entries together
WHOLE_BUDGET = 95 * 2**20


@pytest.mark.parametrize("name", zoo.names())
def test_a_bundled_preset_has_its_card_licence_and_picture(name):
    folder = zoo.find(name)
    picture = () if name == "nmt_seq2seq" else ("attention.png",)  # it has no attention
    for part in ("config.json", "metadata.json", "model.safetensors", "README.md", "LICENSE", *picture):
        assert (folder / part).stat().st_size > 100, part
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= BUDGET[name]


def test_all_presets_together_keep_to_the_budget():
    assert sum(path.stat().st_size for path in data_folder("zoo").rglob("*") if path.is_file()) <= WHOLE_BUDGET


def test_the_understanding_entries_keep_to_their_budget():
    folders = [zoo.find(name) for name in zoo.names() if name.startswith(UNDERSTANDING)]
    assert sum((folder / "model.safetensors").stat().st_size for folder in folders) <= UNDERSTANDING_BUDGET


@pytest.mark.parametrize("name", zoo.names())
def test_a_bundled_preset_opens_with_the_recorded_hash_and_answers_its_samples(name):
    model = zoo.load(name)
    assert model.metadata["task"] == model.task
    samples = model.metadata["samples"][:2]
    found = model.run(samples)
    assert [one.output for one in found] == [model.run(sample).output for sample in samples]
    for one in found:
        assert one.output
        assert one.attention or name == "nmt_seq2seq"


def test_the_page_of_the_zoo_says_what_the_presets_say():
    written = runpy.run_path(str(ROOT / "training" / "zoo_page.py"))["page"]()
    assert (ROOT / "docs" / "zoo.md").read_text("utf-8") == written

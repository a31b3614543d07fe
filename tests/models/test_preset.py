from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from keras_attention.models import preset
from tests.tiny import METADATA, PAIRS, make_model, make_preset


@pytest.fixture
def folder(tmp_path):
    return make_preset(tmp_path / "tiny")


def rewrite(folder, name, change):
    """Changes a JSON file of a preset, and the hash of it that the metadata holds."""
    path = folder / name
    values = json.loads(path.read_text("utf-8"))
    change(values)
    path.write_text(json.dumps(values), "utf-8")
    if name != preset.METADATA_FILE:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rewrite(folder, preset.METADATA_FILE, lambda metadata: metadata["files"].update({name: digest}))


def test_a_preset_comes_back_as_it_was(folder):
    model, copy = make_model(), preset.load(folder)
    for one, two in zip(model.weights, copy.weights, strict=True):
        assert one.path == two.path
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    assert copy.config == model.config
    assert copy.tokenizer.model_bytes == model.tokenizer.model_bytes
    assert copy.translate(PAIRS[0][0]).output == model.translate(PAIRS[0][0]).output
    assert copy.metadata["headline"] == METADATA["headline"]
    assert copy.metadata["parameters"] == model.count_params()


def test_saving_again_keeps_the_card(folder):
    make_model(seed=8).save_to_preset(folder, METADATA)
    assert (folder / "README.md").read_text("utf-8").startswith("# tiny")
    np.testing.assert_array_equal(preset.load(folder).weights[0], make_model(seed=8).weights[0])
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_weights_are_stored_in_half_precision(folder):
    model = make_model()
    assert (folder / preset.WEIGHTS_FILE).stat().st_size < 2 * model.count_params() + 6000


@pytest.mark.parametrize("name", [preset.WEIGHTS_FILE, preset.CONFIG_FILE, "tokenizer/sentencepiece.model"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_a_damaged_file_is_named(folder, name, damage):
    path = folder / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data if damage == "flipped" else data[:-7])
    kind = FileNotFoundError if damage == "missing" and name == preset.CONFIG_FILE else preset.PresetError
    with pytest.raises(kind, match=name.split("/")[-1].replace(".", r"\.")):
        preset.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(version=9), "has version 9; this release reads version 1"),
        (
            lambda values: values.update(family="translations"),
            "Unknown model family 'translations'.*Did you mean 'translation'",
        ),
        (lambda values: values.update(code="x"), "has the unknown key 'code'"),
        (lambda values: values["model"].update(unitz=3), "Unknown key 'unitz'.*Did you mean 'units'"),
        (lambda values: values["model"].update(units=-2), "`units` must be an int >= 1"),
        (lambda values: values.pop("model"), "has no `model`"),
    ],
)
def test_a_bad_config_is_named(folder, change, message):
    rewrite(folder, preset.CONFIG_FILE, change)
    with pytest.raises(preset.PresetError, match=message):
        preset.load(folder)


def test_weights_that_do_not_fit_the_config_are_refused(folder):
    rewrite(folder, preset.CONFIG_FILE, lambda values: values["model"].update(num_layers=2))
    with pytest.raises(preset.PresetError, match="does not fit its config.json"):
        preset.load(folder)
    rewrite(folder, preset.CONFIG_FILE, lambda values: values["model"].update(num_layers=1, embedding_dim=10))
    with pytest.raises(preset.PresetError, match="has shape .* the model wants"):
        preset.load(folder)


def test_a_config_that_wants_more_than_the_file_holds_is_refused_before_it_is_built(folder):
    rewrite(folder, preset.CONFIG_FILE, lambda values: values["model"].update(vocabulary_size=10**12))
    with pytest.raises(preset.PresetError, match="wants at least .* does not fit"):
        preset.load(folder)


def test_a_file_outside_the_folder_is_never_read(folder):
    rewrite(folder, preset.METADATA_FILE, lambda values: values["files"].update({"../secret": "0" * 64}))
    with pytest.raises(preset.PresetError, match="outside of its folder"):
        preset.load(folder)


def test_a_tokenizer_without_a_hash_is_refused(folder):
    rewrite(folder, preset.METADATA_FILE, lambda values: values["files"].pop("tokenizer/sentencepiece.model"))
    with pytest.raises(preset.PresetError, match=r"sentencepiece\.model is not among the `files`"):
        preset.load(folder)


def test_saving_again_takes_away_what_an_older_tokenizer_left(folder):
    (folder / "tokenizer" / "old.model").write_text("old")
    make_model().save_to_preset(folder, METADATA)
    assert [path.name for path in (folder / "tokenizer").iterdir()] == ["sentencepiece.model"]
    assert preset.load(folder).tokenizer.vocabulary_size == 160


def test_the_name_of_a_model_is_not_in_its_preset(tmp_path):
    model = make_model()
    named = type(model)(model.config, model.tokenizer, name="mine")
    named.set_weights(model.get_weights())
    copy = preset.load(preset.save(named, tmp_path / "named"))
    for one, two in zip(model.weights, copy.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


@pytest.mark.parametrize("change", [lambda half: half.astype(np.float32), lambda half: half * np.float16("nan")])
def test_weights_that_are_not_finite_float16_are_refused(folder, change):
    path = folder / preset.WEIGHTS_FILE
    save_file({name: change(half) for name, half in load_file(path).items()}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(folder, preset.METADATA_FILE, lambda values: values["files"].update({preset.WEIGHTS_FILE: digest}))
    with pytest.raises(preset.PresetError, match="must hold finite float16 numbers"):
        preset.load(folder)


def test_other_metadata_than_the_release_knows_is_refused(folder):
    right = hashlib.sha256((folder / preset.METADATA_FILE).read_bytes()).hexdigest()
    assert preset.load(folder, metadata_sha256=right).metadata["task"] == "translation"
    with pytest.raises(preset.PresetError, match="is not the file of this release"):
        preset.load(folder, metadata_sha256="0" * 64)


@pytest.mark.parametrize("text", ["[1]", "{", "\udcff", "[" * 100_000])
def test_metadata_that_is_no_json_object_is_refused(folder, text):
    (folder / preset.METADATA_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(preset.PresetError, match="metadata.json"):
        preset.load(folder)


def test_weights_too_large_for_half_precision_are_not_written(tmp_path):
    model = make_model()
    model.weights[0].assign(np.full(model.weights[0].shape, 1e6))
    with pytest.raises(preset.PresetError, match="not finite, or too large for float16"):
        preset.save(model, tmp_path / "large")


def test_an_empty_folder_is_no_preset(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no preset in"):
        preset.load(tmp_path)


def test_embeddings_of_int8_lose_little_and_are_saved_again_without_loss(tmp_path):
    model = make_model()
    preset.save(model, tmp_path / "small", METADATA, embeddings_dtype="int8")
    copy = preset.load(tmp_path / "small")
    preset.save(copy, tmp_path / "again", METADATA, embeddings_dtype="int8")
    stored = load_file(tmp_path / "small" / preset.WEIGHTS_FILE)
    assert {str(value.dtype) for value in stored.values()} == {"int8", "float16", "float32"}
    for one, two, three in zip(model.weights, copy.weights, preset.load(tmp_path / "again").weights, strict=True):
        np.testing.assert_array_equal(two.numpy(), three.numpy())
        if one.name == "embeddings":
            step = np.abs(one.numpy()).max(axis=1, keepdims=True) / 127
            assert (np.abs(one.numpy() - two.numpy()) <= 0.501 * step).all()
        else:
            np.testing.assert_array_equal(one.numpy(), two.numpy())


NUMBERS = st.floats(-(2.0**90), 2.0**90, width=32).map(lambda one: one if abs(one) > 2.0**-90 else 0.0)


@given(hnp.arrays(np.float32, (3, 4), elements=NUMBERS))
def test_rounded_rows_are_near_and_stay_as_they_are(rows):
    numbers, scale = preset.rounded_rows(rows)
    near = numbers.astype(np.float64) * scale[:, None].astype(np.float64)
    assert (np.abs(near - rows) <= 0.501 / 127 * np.abs(rows).max(axis=1, keepdims=True)).all()
    again, same = preset.rounded_rows(numbers * scale[:, None])
    np.testing.assert_array_equal(numbers * scale[:, None], again * same[:, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, stored: {name: stored[name].astype(np.float16)}, "must be int8 .N, D. where there is"),
        (lambda name, stored: {f"{name}.scale": stored[f"{name}.scale"][1:]}, "and that float32 .N,."),
        (lambda name, stored: {f"{name}.scale": stored[f"{name}.scale"] * np.nan}, "finite float32 numbers only"),
        (lambda name, stored: {"other.scale": stored[f"{name}.scale"]}, "other.scale is in one of the two only"),
    ],
)
def test_embeddings_of_int8_that_do_not_fit_are_refused(tmp_path, change, message):
    preset.save(make_model(), tmp_path, METADATA, embeddings_dtype="int8")
    stored = load_file(tmp_path / preset.WEIGHTS_FILE)
    name = next(one for one in stored if one.endswith("/embeddings"))
    save_file({**stored, **change(name, stored)}, tmp_path / preset.WEIGHTS_FILE)
    digest = hashlib.sha256((tmp_path / preset.WEIGHTS_FILE).read_bytes()).hexdigest()
    rewrite(tmp_path, preset.METADATA_FILE, lambda values: values["files"].update({preset.WEIGHTS_FILE: digest}))
    with pytest.raises(preset.PresetError, match=message):
        preset.load(tmp_path)


def test_an_unknown_dtype_of_embeddings_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be one of float16, int8. Received 'int4'"):
        preset.save(make_model(), tmp_path / "new", embeddings_dtype="int4")
    assert not (tmp_path / "new").exists()

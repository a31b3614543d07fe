"""What the tests of the command share: a tiny preset, a zoo of one entry, and the command called in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from keras_attention import cli, preset_hashes, zoo
from keras_attention.cli import tensorflow_models
from tests import tiny


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def call(capsys):
    """Runs the command with these arguments."""

    def run(*arguments) -> Done:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def preset(tmp_path_factory) -> Path:
    return tiny.make_preset(tmp_path_factory.mktemp("cli") / "preset")


@pytest.fixture(scope="session")
def model(preset):
    return zoo.load(preset)


@pytest.fixture
def loaded(model, monkeypatch):
    """The command gets this model for every entry, so that each of its searches is compiled once for all tests."""
    monkeypatch.setattr(tensorflow_models, "load", lambda entry: model)
    return model


@pytest.fixture
def not_loaded(monkeypatch):
    """What is wrong must be found before a model is loaded."""

    def load(entry):
        raise AssertionError(f"{entry} was loaded")

    monkeypatch.setattr(tensorflow_models, "load", load)


@pytest.fixture
def bundled(preset, tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "zoo"
    shutil.copytree(preset, folder / "nmt_tiny")
    monkeypatch.setattr(zoo, "data_folder", lambda name: folder)
    monkeypatch.setattr(zoo, "METADATA_SHA256", preset_hashes.computed(folder))
    return folder

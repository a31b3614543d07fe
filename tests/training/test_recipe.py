from __future__ import annotations

import pytest

from keras_attention.training.recipe import Recipe

TEXT = """
version: 1
family: translation
model:
  units: 256
  dropout: 2e-1
tokenizer: {vocabulary_size: 4000}
data: {train: [/somewhere/train.tsv], valid: valid.tsv}
optimizer:
  learning_rate: 1e-3      # YAML 1.1 takes this for a string
  decay: cosine
training:
  steps: 1e4
  early_stopping: {metric: bleu, patience: 5}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(TEXT, "utf-8")
    return path


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def test_a_file_gives_typed_values(path):
    recipe = Recipe.from_yaml(path)
    assert recipe.optimizer.learning_rate == 0.001
    assert recipe.training.steps == 10_000 and isinstance(recipe.training.steps, int)
    assert recipe.model == {"units": 256, "dropout": 0.2}
    assert recipe.data.train == ("/somewhere/train.tsv",) and recipe.data.valid == ("valid.tsv",)
    assert (recipe.training.early_stopping.metric, recipe.training.early_stopping.patience) == ("bleu", 5)
    assert recipe.optimizer.beta_2 == 0.999  # what the file leaves out has its default


def test_a_recipe_survives_the_file(path, tmp_path):
    recipe = Recipe.from_yaml(path).override(["optimizer.epsilon=1e-12", "evaluation.metrics=[bleu, chrf]"])
    assert Recipe.from_yaml(write(tmp_path / "copy.yaml", recipe.to_yaml())) == recipe


def test_settings_replace_values_at_any_depth(path):
    recipe = Recipe.from_yaml(path).override(
        [
            "optimizer.learning_rate=5e-4",
            "training.early_stopping.patience=2",
            "model.decoder.kind=lstm",
            "model.scale=1E+2",
            "data.train=[a.tsv, b.tsv]",
            "data.skip_bad=true",
        ]
    )
    assert recipe.optimizer.learning_rate == 5e-4
    assert recipe.training.early_stopping.patience == 2
    assert recipe.training.early_stopping.metric == "bleu"
    assert recipe.model == {"units": 256, "dropout": 0.2, "decoder": {"kind": "lstm"}, "scale": 100.0}
    assert recipe.data.train == ("a.tsv", "b.tsv") and recipe.data.skip_bad is True


def test_settings_apply_together(path):
    settings = ["training.decay_over=minutes", "training.minutes=3"]  # the first alone would be refused
    assert Recipe.from_yaml(path).override(settings).training.minutes == 3.0


@pytest.mark.parametrize(
    ("setting", "error", "match"),
    [
        ("optimiser.name=adam", ValueError, r"Unknown key `optimiser`: did you mean `optimizer`\?"),
        ("optimizer.lerning_rate=1", ValueError, r"`optimizer.lerning_rate`: did you mean `optimizer.learning_rate`\?"),
        ("training.steps=1.5", TypeError, r"`training.steps` is 1.5 \(float\). Expected a whole number"),
        ("training.steps=many", TypeError, r"`training.steps` is 'many' \(str\)"),
        ("training.steps=true", TypeError, r"`training.steps` is True \(bool\)"),
        ("optimizer.learning_rate=", TypeError, r"`optimizer.learning_rate` is None \(nothing\). Expected a number"),
        ("data.skip_bad=1", TypeError, r"`data.skip_bad` is 1 \(int\). Expected true or false"),
        ("data.train=[1, 2]", TypeError, r"`data.train` is \[1, 2\] \(list\). Expected a list of strings"),
        ("model=3", TypeError, r"`model` is 3 \(int\). Expected a mapping"),
        ("family.name=x", ValueError, "`family` is a single value"),
        ("model.units.x=1", ValueError, r"`model.units.x` lies below 256"),
        ("training.steps", ValueError, "Cannot read the setting 'training.steps'. Expected name=value"),
        ("model={", ValueError, "Cannot read the value of"),
        ("optimizer.name=adagrad", ValueError, "`optimizer.name` is 'adagrad'. Expected one of adam, adamw, sgd"),
        ("optimizer.learning_rate=0", ValueError, "`optimizer.learning_rate` is 0.0. Expected a rate above 0"),
        ("optimizer.ema_decay=1", ValueError, r"`optimizer.ema_decay` is 1.0. Expected a number in \[0, 1\)"),
        ("optimizer.weight_decay=0.1", ValueError, "set `optimizer.name` to adamw"),
        ("training.precision=float16", ValueError, "`training.precision` is 'float16'. Expected one of float32"),
        ("training.minutes=-1", ValueError, "`training.minutes` is -1.0. Expected 0 or more"),
        ("training.decay_over=minutes", ValueError, "`training.minutes` is 0.0. Expected a budget above 0"),
        ("training.steps=0", ValueError, "Expected a budget: epochs, steps or minutes"),
        ("training.average_checkpoints=9", ValueError, r"at most training.keep_checkpoints \(3\)"),
        ("tokenizer.vocabulary_size=4", ValueError, "Expected at least 8 pieces"),
        ("tokenizer.model_type=bpe", ValueError, 'Expected "unigram"'),
        ("version=2", ValueError, "`version` is 2. Expected 1"),
    ],
)
def test_a_bad_setting_is_named(path, setting, error, match):
    with pytest.raises(error, match=match):
        Recipe.from_yaml(path).override([setting])


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("family: x", ValueError, "recipe.yaml: `version` is missing"),
        ("version: 1", ValueError, "recipe.yaml: `family` is missing"),
        ("version: 1\nfamily: x\ntrainin: {}", ValueError, "did you mean `training`"),
        ("version: 1\nfamily: x\ntraining: 3", TypeError, "`training` is 3"),
        ("version: 1\nfamily: x\nfamily: y", ValueError, "The key 'family' stands twice"),
        ("- 1", TypeError, r"`recipe` is \[1\] \(list\). Expected a mapping"),
        ("a: [", ValueError, "not a YAML file"),
        ("a: !!python/object/apply:os.getcwd []", ValueError, "not a YAML file"),
    ],
)
def test_a_bad_file_is_named(path, text, error, match):
    with pytest.raises(error, match=match):
        Recipe.from_yaml(write(path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such recipe"):
        Recipe.from_yaml(tmp_path / "none.yaml")


def test_a_decay_over_steps_wants_a_number_of_steps(path):
    with pytest.raises(ValueError, match="only a budget of minutes is given"):
        Recipe.from_yaml(path).override(["training.steps=0", "training.minutes=5"])


def test_identity_tells_model_and_data_apart_and_nothing_else(path):
    recipe = Recipe.from_yaml(path)
    before = recipe.identity()
    changed = {
        "optimizer.learning_rate=0.5": set(),
        "training.steps=7": set(),
        "data.train=[/elsewhere/train.tsv]": set(),  # the same file in another folder
        "model.units=8": {"model"},
        "tokenizer.vocabulary_size=99": {"model"},
        "training.seed=8": {"data"},
        "training.batch_tokens=99": {"data"},
        "training.bucket_width=2": set(),  # what it was
        "training.bucket_width=50": {"data"},
        "data.train=[other.tsv]": {"data"},
    }
    for setting, expected in changed.items():
        after = recipe.override([setting]).identity()
        assert {name for name in before if before[name] != after[name]} == expected, setting


def test_what_is_shared_names_no_folder(path):
    assert "somewhere" not in Recipe.from_yaml(path).without_folders().to_yaml()

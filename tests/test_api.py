"""The public lists, what `import keras_attention` loads, and who may import whom."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import keras_attention

PACKAGE = Path(keras_attention.__file__).resolve().parent

PUBLIC = {
    "keras_attention": [
        "AttentionMap",
        "Prediction",
        "TaskModel",
        "alignments",
        "attention_maps",
        "decoding",
        "export",
        "layers",
        "maps",
        "models",
        "scores",
        "text",
        "training",
        "zoo",
    ],
    "keras_attention.alignments": [
        "argmax",
        "categorical",
        "combine_masks",
        "entmax15",
        "fixed_window",
        "gaussian_window",
        "get",
        "gumbel_softmax",
        "serialize",
        "softmax",
        "sparsemax",
        "straight_through_gumbel",
    ],
    "keras_attention.layers": [
        "AttentionLayer",
        "AttentionOverAttention",
        "AttentionRNN",
        "AttentivePooling",
        "BahdanauAttention",
        "BahdanauCell",
        "ConditionalRandomField",
        "CoverageAttention",
        "Draws",
        "ExponentialTemperature",
        "GatedPooling",
        "HardAttention",
        "HierarchicalAttention",
        "KeyValueCache",
        "LocalAttention",
        "LocationAttention",
        "LuongAttention",
        "LuongCell",
        "MaxPooling",
        "MeanPooling",
        "MemoryAttention",
        "MonotonicAttention",
        "MovingBaseline",
        "MultiDimAttention",
        "MultiHeadAttention",
        "OrthogonalityRegularizer",
        "PreparedKeys",
        "SelfAttention",
        "SequencePooling",
        "SoftAttention",
        "StructuredAttention",
        "coverage_loss",
        "reinforce_loss",
        "sum_attention",
        "tag_constraints",
    ],
    "keras_attention.scores": [
        "AdditiveScore",
        "ChannelAdditiveScore",
        "ChannelBilinearScore",
        "ChannelScore",
        "CosineScore",
        "DotScore",
        "GeneralScore",
        "LocationAwareScore",
        "MLPScore",
        "ScaledDotScore",
        "Score",
        "additive",
        "channel_additive",
        "channel_bilinear",
        "cosine",
        "dot",
        "general",
        "get",
        "location_aware",
        "mlp",
        "scaled_dot",
    ],
    "keras_attention.decoding": [
        "Hypotheses",
        "IMPOSSIBLE",
        "SearchSettings",
        "beam_search",
        "coverage_penalty",
        "forced_search",
        "greedy_search",
        "length_penalty",
        "repeat_rows",
        "sample_search",
    ],
    "keras_attention.export": ["ExportError", "ExportReport", "to_saved_model", "to_tflite"],
    "keras_attention.inspection": ["attention_maps"],
    "keras_attention.maps": ["AttentionMap", "DocumentMap", "MissingGlyphWarning"],
    "keras_attention.models": [
        "ClassificationConfig",
        "ClassificationModel",
        "ClozeConfig",
        "ClozeModel",
        "EntailmentConfig",
        "EntailmentModel",
        "FAMILIES",
        "HierarchicalConfig",
        "HierarchicalModel",
        "MemoryNetworkConfig",
        "MemoryNetworkModel",
        "Prediction",
        "RelationConfig",
        "RelationModel",
        "TaggingConfig",
        "TaggingModel",
        "TaskModel",
        "TransformerConfig",
        "TransformerTranslationModel",
        "TranslationConfig",
        "TranslationModel",
        "family_class",
    ],
    "keras_attention.text": ["SentencePieceTokenizer", "VectorError", "WordTokenizer", "WordVectors", "normalize"],
    "keras_attention.training": [
        "BadLines",
        "BatchPlan",
        "Callback",
        "CheckpointError",
        "DataConfig",
        "DataError",
        "EvaluationConfig",
        "FitResult",
        "OptimizerConfig",
        "Recipe",
        "Splits",
        "TensorBoard",
        "TokenStore",
        "TokenizerConfig",
        "Trainer",
        "TrainingConfig",
        "TrainingError",
        "evaluate",
        "make_cloze",
        "parse_relation",
        "read_babi",
        "read_conll",
        "read_examples",
        "read_lines",
        "read_propositions",
        "read_relations",
        "semeval2010_macro_f1",
        "semeval2010_scores",
        "span_scores",
        "split_pairs",
        "srl_scores",
        "tf_dataset",
        "token_accuracy",
    ],
    "keras_attention.cli": ["main"],
    "keras_attention.zoo": [
        "Entry",
        "METADATA_KEYS",
        "PresetError",
        "UnknownEntryError",
        "card",
        "find",
        "list",
        "load",
        "names",
        "save",
    ],
}

# What each part may import: the leaves, and what stands to its left in
# scores, alignments → layers → models → training; models → export; models → zoo; all → cli.
LEAVES = {"decoding", "maps", "precision", "resources", "text"}
MECHANISMS = LEAVES | {"alignments", "scores"}
MAY_IMPORT = {
    **{leaf: set() for leaf in LEAVES},
    "alignments": LEAVES,
    "inspection": LEAVES,
    "scores": LEAVES,
    "layers": MECHANISMS,
    "models": MECHANISMS | {"layers"},
    "training": MECHANISMS | {"layers", "models"},
    "export": MECHANISMS | {"layers", "models"},
    "preset_hashes": {"resources"},
    "zoo": MECHANISMS | {"layers", "models", "preset_hashes"},
    "cli": MECHANISMS | {"layers", "models", "training", "export", "zoo"},
    "": set(),  # the package itself loads its parts on first use
}

# `model.export` is the one call that looks upwards, and only when it is made.
UPWARDS_ON_USE = {"models/task_model.py": {"export"}}

# Needed by one function each: imported there, never when a module is loaded.
INSIDE_FUNCTIONS = {
    "ai_edge_litert",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "rouge_score",
    "sacrebleu",
    "seqeval",
    "tf2onnx",
}

FILES = sorted(PACKAGE.rglob("*.py"))
FILES = [file for file in FILES if "_data" not in file.parts]
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))


def part_of(file):
    """The part of the package a file belongs to: the folder or module below `keras_attention`; "" is the package."""
    first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def dotted(file):
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(nodes, file):
    """Full dotted names that import statements (and `import_module("…")`) among `nodes` name."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = file.relative_to(PACKAGE.parent).parts[: -node.level]
                base = ".".join([*package, base]).rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def our_parts(names):
    """The parts of the library among full names. A name of the package that is no part, as `__version__`, is none."""
    parts = {name.split(".")[1] for name in names if name.startswith("keras_attention.")}
    return parts & set(MAY_IMPORT) | {part for part in parts if (PACKAGE / part).is_dir()}


def at_load_time(node):
    """The nodes that run when a module is imported: not those inside functions or `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_load_time(child)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_pinned(module):
    loaded = importlib.import_module(module)
    assert sorted(loaded.__all__) == PUBLIC[module]
    assert [name for name in PUBLIC[module] if not hasattr(loaded, name)] == []


def test_every_public_list_is_pinned():
    """Each `__init__`, and each module that stands beside them, has its list here."""
    public = {dotted(file) for file in FILES if file.name == "__init__.py" or file.parent == PACKAGE}
    lists = {name for name in public if hasattr(importlib.import_module(name), "__all__")}
    assert lists == set(PUBLIC)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'keras_attention' has no attribute 'attension'"):
        keras_attention.attension  # noqa: B018
    assert set(dir(keras_attention)) >= set(PUBLIC["keras_attention"])


HEAVY = ["jax", "keras", "matplotlib", "tensorflow", "tensorflow_text", "torch"]


LIGHT = [
    "keras_attention",
    "keras_attention.inspection",
    "keras_attention.maps",
    "keras_attention.resources",
    "keras_attention.zoo",
]


@pytest.mark.parametrize("module", LIGHT)
def test_importing_is_light(module):
    code = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""


def test_every_part_has_a_rule():
    assert len(FILES) > 10
    assert {part_of(file) for file in FILES} <= set(MAY_IMPORT)


@each_file
def test_imports_go_to_the_left(file):
    part = part_of(file)
    names = set(imported_names(ast.walk(ast.parse(file.read_text("utf-8"))), file))
    on_use = UPWARDS_ON_USE.get(str(file.relative_to(PACKAGE)), set())
    assert our_parts(names) - {part} <= MAY_IMPORT[part] | on_use
    loaded = set(imported_names(at_load_time(ast.parse(file.read_text("utf-8"))), file))
    assert not our_parts(loaded) & on_use
    assert "keras_attention" not in names, "name the part, so that this test sees it"


@each_file
def test_rare_libraries_are_imported_where_they_are_used(file):
    loaded = {name.split(".")[0] for name in imported_names(at_load_time(ast.parse(file.read_text("utf-8"))), file)}
    assert not loaded & INSIDE_FUNCTIONS
    if part_of(file) in ("", "inspection", "maps", "resources", "cli", "zoo"):
        assert not loaded & set(HEAVY)


# Keras' own loops neither lower to TFLite nor take lists of outputs: there the file has a loop of TensorFlow's.
WITH_A_BACKEND = {"recomputed.py": {"tensorflow"}}


@pytest.mark.parametrize("part", ["alignments", "layers", "scores"])
def test_mechanisms_know_no_backend(part):
    files = [file for file in FILES if part_of(file) == part]
    assert files
    for file in files:
        names = {name.split(".")[0] for name in imported_names(ast.walk(ast.parse(file.read_text("utf-8"))), file)}
        known = {"keras", "keras_attention"} | WITH_A_BACKEND.get(file.name, set())
        assert names - sys.stdlib_module_names <= known, file.name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from keras_attention import layers", {"layers"}),
        ("from keras_attention.training.readers import read_examples", {"training"}),
        ("import keras_attention.zoo", {"zoo"}),
        ("def f():\n    from keras_attention.models import preset", {"models"}),
        ("from . import attention_layer", {"layers"}),
        ("from ..scores import dot", {"scores"}),
        ("import importlib\nimportlib.import_module('keras_attention.cli')", {"cli"}),
        ("from keras_attention import __version__\nimport keras", set()),
    ],
)
def test_the_reader_of_imports_sees_every_form(source, expected):
    file = PACKAGE / "layers" / "example.py"
    assert our_parts(imported_names(ast.walk(ast.parse(source)), file)) == expected

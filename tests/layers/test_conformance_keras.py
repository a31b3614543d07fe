"""Every attention layer inside Keras: graphs, saved models, symbolic shapes, the place of Keras' own layer, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attention
from tests.backends import float64_only, one_backend, tensorflow_only, to_float64
from tests.layers.conformance import QUERY_DIM, TABLE, VALUE_DIM, attend, each_row, give_values, masks

QUERY_MASK, VALUE_MASK, ATTENTION_MASK = masks()
ROOT = Path(keras_attention.__file__).resolve().parents[1]


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@each_row
def test_graph_and_xla_equal_eager(row, jit_compile):
    import tensorflow as tf

    layer = row.build()
    floats = [tf.TensorSpec([None, None, size]) for size in (QUERY_DIM, VALUE_DIM, row.key_dim)]
    bools = [tf.TensorSpec([None, None], tf.bool), tf.TensorSpec([None, None, None], tf.bool)]

    @tf.function(jit_compile=jit_compile, input_signature=[*floats, *bools])
    def compiled(query, value, key, value_mask, attention_mask):
        return layer(
            [query, value, key],
            mask=[None, value_mask],
            attention_mask=attention_mask,
            return_attention_scores=True,
            use_causal_mask=True,
        )

    inputs = row.draw()
    arguments = {"mask": [None, VALUE_MASK], "attention_mask": ATTENTION_MASK, "use_causal_mask": True}
    expected = attend(layer, inputs, **arguments)
    for got, one in zip(compiled(*inputs, VALUE_MASK, ATTENTION_MASK), expected, strict=True):
        np.testing.assert_allclose(to_float64(got), one, rtol=0, atol=1e-6)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@each_row
def test_stepping_in_a_graph_equals_the_call(row, jit_compile):
    import tensorflow as tf

    layer = row.build()
    prepared_specs = [tf.TensorSpec([None, None, size]) for size in (QUERY_DIM, VALUE_DIM, row.key_dim)]

    @tf.function(jit_compile=jit_compile, input_signature=[*prepared_specs, tf.TensorSpec([None, None], tf.bool)])
    def first_two(query, value, key, mask):
        prepared = layer.prepare(value, key, mask)
        context, _, state = layer.attend(query[:, 0], prepared, layer.initial_state(prepared))
        return context, layer.attend(query[:, 1], prepared, state)[0]

    inputs = row.draw()
    expected, _ = attend(layer, inputs, mask=[None, VALUE_MASK])
    for t, got in enumerate(first_two(*inputs, VALUE_MASK)):
        np.testing.assert_allclose(to_float64(got), expected[:, t], rtol=0, atol=1e-6)


@one_backend
@each_row
def test_config_makes_an_equal_layer(row):
    layer, inputs = row.build(dropout=0.1, seed=3, name="looked_at", dtype="mixed_bfloat16"), row.draw()
    config = json.loads(json.dumps(layer.get_config()))
    twin = row.layer.from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    assert twin.dtype_policy.name == "mixed_bfloat16" and twin.dropout == 0.1 and twin.name == "looked_at"
    twin.build([one.shape for one in inputs])
    twin.set_weights(layer.get_weights())
    for got, expected in zip(attend(twin, inputs), attend(layer, inputs), strict=True):
        np.testing.assert_array_equal(got, expected)


LOAD_AND_RUN = """
import json, os, sys
if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None
import numpy as np
import keras
import keras_attention.layers

folder = sys.argv[1]
inputs = dict(np.load(f"{folder}/inputs.npz"))
for name in json.load(open(f"{folder}/names.json")):
    model = keras.saving.load_model(f"{folder}/{name}.keras")
    feed = {key.split(".")[1]: value for key, value in inputs.items() if key.split(".")[0] == name}
    outputs = model(feed)
    np.savez(f"{folder}/{name}.npz", **{key: keras.ops.convert_to_numpy(value) for key, value in outputs.items()})
"""


def model_of(row):
    """A model of the user's own: masks are inputs, the outputs are context and weights."""
    sizes = {"query": QUERY_DIM, "value": VALUE_DIM, "key": row.key_dim}
    inputs = {name: keras.Input((None, size), name=name) for name, size in sizes.items()}
    inputs["value_mask"] = keras.Input((None,), dtype="bool", name="value_mask")
    context, weights = row.make()(
        [inputs["query"], inputs["value"], inputs["key"]],
        mask=[None, inputs["value_mask"]],
        return_attention_scores=True,
    )
    return keras.Model(inputs, {"context": context, "weights": weights})


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory):
    """All rows saved here and run in one fresh process: row → (outputs here, outputs there)."""
    folder = tmp_path_factory.mktemp("saved")
    here, inputs = {}, {}
    for seed, row in enumerate(TABLE):
        model = model_of(row)
        give_values(model, seed)
        query, value, key = row.draw()
        feed = {"query": query, "value": value, "key": key, "value_mask": VALUE_MASK}
        here[row.name] = {name: to_float64(one) for name, one in model(feed).items()}
        inputs |= {f"{row.name}.{name}": array for name, array in feed.items()}
        model.save(folder / f"{row.name}.keras")
    np.savez(folder / "inputs.npz", **inputs)
    (folder / "names.json").write_text(json.dumps(list(here)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": keras.backend.backend()}
    command = [sys.executable, "-c", LOAD_AND_RUN, str(folder)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name: (outputs, dict(np.load(folder / f"{name}.npz"))) for name, outputs in here.items()}


@each_row
def test_saved_model_is_equal_in_a_fresh_process(row, reloaded):
    here, there = reloaded[row.name]
    assert here.keys() == there.keys() == {"context", "weights"}
    for name, expected in here.items():
        np.testing.assert_array_equal(there[name].astype("float64"), expected)


@one_backend
@each_row
def test_symbolic_shapes_are_those_of_the_outputs(row):
    query, value, key = (keras.Input((None, size)) for size in (QUERY_DIM, VALUE_DIM, row.key_dim))
    layer = row.make()
    context, weights = layer([query, value, key], return_attention_scores=True)
    assert context.shape == (None, None, VALUE_DIM) and weights.shape == row.weights_shape(None, None, None)
    assert layer([query, value, key]).shape == (None, None, VALUE_DIM)
    assert layer.compute_output_shape([one.shape for one in (query, value, key)]) == (None, None, VALUE_DIM)

    inputs = row.draw()
    model = keras.Model([query, value, key], [context, weights])
    outputs = model(inputs)
    assert outputs[0].shape == (2, 3, VALUE_DIM) == layer.compute_output_shape([one.shape for one in inputs])
    assert outputs[1].shape == row.weights_shape(2, 3, 5)
    for symbolic, actual in zip((context, weights), outputs, strict=True):
        assert symbolic.dtype == keras.backend.standardize_dtype(actual.dtype)


@one_backend
@pytest.mark.parametrize("policy", ["mixed_float16", pytest.param("float64", marks=float64_only)])
@each_row
def test_symbolic_dtypes_are_those_of_the_policy(row, policy):
    sizes = (QUERY_DIM, VALUE_DIM, row.key_dim)
    context, weights = row.make(dtype=policy)([keras.Input((None, s)) for s in sizes], return_attention_scores=True)
    assert context.dtype == policy.removeprefix("mixed_")
    assert weights.dtype == ("float64" if policy == "float64" else "float32")


@one_backend
@each_row
def test_time_distributed_self_attention_equals_each_slice(row):
    """TimeDistributed takes one tensor, so it wraps a model that attends within one: words within each sentence."""
    layer = row.build(width=7)
    words = keras.Input((None, 7))
    within = keras.Model(words, layer([words, words]))
    document = np.random.normal(size=(2, 3, 5, 7)).astype("float32")
    together = to_float64(keras.layers.TimeDistributed(within)(document))
    for sentence in range(3):
        alone, _ = attend(layer, [document[:, sentence], document[:, sentence]])
        np.testing.assert_allclose(together[:, sentence], alone, rtol=0, atol=1e-6)


def drop_in(attention):
    """A model as users have it, padding masks made by the embeddings; only the attention is swapped."""
    query, value = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embed = keras.layers.Embedding(11, 7, mask_zero=True)
    asked, looked_at = embed(query), embed(value)
    context, weights = attention([asked, looked_at], return_attention_scores=True, use_causal_mask=True)
    pooled = keras.layers.GlobalAveragePooling1D()(context)
    model = keras.Model([query, value], [keras.layers.Dense(2)(pooled), context, weights])
    give_values(model, 9)
    return model


IDS = [np.array([[3, 4, 0], [5, 6, 7]]), np.array([[8, 9, 10, 0, 0], [1, 2, 3, 4, 5]])]


@one_backend
@each_row
def test_takes_the_place_of_keras_attention(row):
    row.needs("one map")
    ours, theirs = drop_in(row.make())(IDS), drop_in(keras.layers.Attention())(IDS)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.shape == yours.shape and mine.dtype == yours.dtype
        assert np.isfinite(to_float64(mine)).all()
    _, context, weights = (to_float64(one) for one in ours)
    query_mask, value_mask = (ids != 0 for ids in IDS)
    assert (weights[~query_mask] == 0).all() and (context[~query_mask] == 0).all()
    assert (weights[0][:, ~value_mask[0]] == 0).all()
    assert (weights * np.triu(np.ones((3, 5)), 1) == 0).all()


@one_backend
@each_row
def test_passes_the_mask_of_the_queries_on(row):
    # Padding at the end of the query must not reach the mean: embeddings make the masks, the pooling reads one.
    longer = [np.pad(IDS[0], ((0, 0), (0, 2))), IDS[1]]
    model = drop_in(row.make())
    np.testing.assert_allclose(to_float64(model(longer)[0]), to_float64(model(IDS)[0]), rtol=0, atol=1e-6)


@one_backend
@each_row
def test_learns_inside_fit(row):
    layer = row.build(width=7)
    before = [to_float64(weight.value) for weight in layer.trainable_weights]
    query, value = keras.Input((None, 7)), keras.Input((None, 7))
    model = keras.Model([query, value], keras.layers.Dense(1)(layer([query, value])))
    model.compile("sgd", "mse", jit_compile=False)
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(4, 3, 7)), rng.normal(size=(4, 5, 7))]
    history = model.fit(data, np.ones((4, 3, 1)), epochs=2, batch_size=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for old, new in zip(before, layer.trainable_weights, strict=True):
        assert not np.array_equal(old, to_float64(new.value))


WRONG = {
    "one tensor": (lambda q, v, k: q, {}, ValueError, r"list \[query, value\].*one tensor of shape \(2, 3, 7\)"),
    "one input": (lambda q, v, k: [q], {}, ValueError, r"list \[query, value\].*a list of 1"),
    "four inputs": (lambda q, v, k: [q, v, k, k], {}, ValueError, r"list \[query, value\].*a list of 4"),
    "lengths": (lambda q, v, k: [q, v, k[:, :4]], {}, ValueError, r"same length Tv.*\(2, 4, .*or omit `key`"),
    "batches": (lambda q, v, k: [q[:1], v, k], {}, ValueError, r"same batch size.*\(1, 3, 7\).*same examples"),
    "rank of query": (lambda q, v, k: [q[0], v, k], {}, ValueError, r"`query` must be of rank 3.*\(3, 7\)"),
    "rank of value": (lambda q, v, k: [q, v[..., None], k], {}, ValueError, r"`value` must be of rank 3"),
    "float value mask": (
        lambda q, v, k: [q, v, k],
        {"mask": [None, np.ones((2, 5), "float32")]},
        TypeError,
        r"value mask must be bool.*float32.*ids != 0",
    ),
    "float query mask": (
        lambda q, v, k: [q, v, k],
        {"mask": [np.ones((2, 3), "float32"), None]},
        TypeError,
        r"query mask must be bool",
    ),
    "integer attention mask": (
        lambda q, v, k: [q, v, k],
        {"attention_mask": np.ones((2, 3, 5), "int32")},
        TypeError,
        r"attention_mask must be bool.*int32",
    ),
    "mask not a list": (
        lambda q, v, k: [q, v, k],
        {"mask": VALUE_MASK},
        ValueError,
        r"`mask` must be a list \[query_mask, value_mask\].*one tensor of shape \(2, 5\)",
    ),
    "masks in the wrong order": (
        lambda q, v, k: [q, v, k],
        {"mask": [VALUE_MASK, QUERY_MASK]},
        ValueError,
        r"query mask must be \(B, Tq\), here \(2, 3\).*\(2, 5\).*order",
    ),
    "mask of pairs among the two": (
        lambda q, v, k: [q, v, k],
        {"mask": [None, ATTENTION_MASK]},
        ValueError,
        r"value mask must be \(B, Tv\).*\(2, 3, 5\).*attention_mask",
    ),
    "attention mask without queries": (
        lambda q, v, k: [q, v, k],
        {"attention_mask": VALUE_MASK},
        ValueError,
        r"attention_mask must be \(B, Tq, Tv\), here \(2, 3, 5\)",
    ),
}


@one_backend
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
@each_row
def test_a_wrong_call_says_what_is_wrong(row, case):
    change, arguments, error, message = case
    with pytest.raises(error, match=f"(?s){message}"):
        row.make()(change(*row.draw()), **arguments)


@one_backend
@pytest.mark.parametrize("dropout", [1.0, -0.1])
@each_row
def test_dropout_outside_its_range_is_refused(row, dropout):
    with pytest.raises(ValueError, match=rf"`dropout` must be a share in \[0, 1\)\. Received {dropout}"):
        row.make(dropout=dropout)


@one_backend
@each_row
def test_a_wrong_step_says_what_is_wrong(row):
    layer, (query, value, key) = row.build(), row.draw()
    prepared = layer.prepare(value, key)
    with pytest.raises(ValueError, match=r"query of one step, \(B, Dq\).*\(2, 3, 7\).*query\[:, t\]"):
        layer.attend(query, prepared, layer.initial_state(prepared))
    with pytest.raises(TypeError, match="value mask must be bool"):
        layer.prepare(value, key, VALUE_MASK.astype("float32"))

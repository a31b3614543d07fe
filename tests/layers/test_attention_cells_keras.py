"""The decoder cells inside Keras: functional models, files, graphs, exports, configs; and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention
from keras_attention import layers
from tests.backends import BACKEND, one_backend, tensorflow_only, to_float64
from tests.layers.conformance import give_values
from tests.layers.exporting import Exportable, run_onnx, run_tflite, to_onnx, to_tflite
from tests.layers.test_attention_cells import (
    EMBEDDED,
    GRU,
    JOINED,
    LSTM,
    QUERY_MASK,
    UNITS,
    VALUE_DIM,
    VALUE_MASK,
    bahdanau,
    draw,
    in_rnn,
    luong,
    stacked,
)

ROOT = Path(keras_attention.__file__).resolve().parents[1]
LOAD_AND_RUN = """
import sys
import keras
import numpy as np
import keras_attention.layers
folder = sys.argv[1]
outputs = keras.saving.load_model(f"{folder}/model.keras")(dict(np.load(f"{folder}/inputs.npz")))
np.save(f"{folder}/outputs.npy", keras.ops.convert_to_numpy(outputs))
"""


def functional(cell, value_length=None):
    """A model of the user's own: an encoder, the cell in an RNN, masks as inputs."""
    inputs = {
        "embedded": keras.Input((None, EMBEDDED), name="embedded"),
        "value": keras.Input((value_length, VALUE_DIM), name="value"),
        "steps": keras.Input((None,), dtype="bool", name="steps"),
        "kept": keras.Input((value_length,), dtype="bool", name="kept"),
    }
    encoded, last = keras.layers.GRU(UNITS, return_sequences=True, return_state=True)(inputs["value"])
    start = cell.initial_state(keras.layers.Dense(VALUE_DIM)(encoded), mask=inputs["kept"], states=last)
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True)
    outputs, *states = rnn(inputs["embedded"], initial_state=start, mask=inputs["steps"])
    assert [one.shape[0] for one in keras.tree.flatten(states)] == [None] * 7
    return keras.Model(inputs, outputs)


def feed():
    embedded, value = draw()
    return {"embedded": embedded, "value": value, "steps": QUERY_MASK, "kept": VALUE_MASK}


def test_a_functional_model_learns_and_is_equal_in_a_fresh_process(tmp_path):
    cell = layers.LuongCell(GRU(UNITS, dropout=0.1), layers.CoverageAttention(7, dropout=0.1), JOINED)
    model = functional(cell)
    assert model.output_shape == (None, None, JOINED)
    before = [to_float64(weight) for weight in cell.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=BACKEND == "jax")
    history = model.fit(feed(), np.ones((2, 4, JOINED)), epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    for old, new in zip(before, cell.trainable_weights, strict=True):
        assert not np.array_equal(old, to_float64(new))

    expected = to_float64(model(feed()))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", **feed())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": BACKEND}
    command = [sys.executable, "-c", LOAD_AND_RUN, str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "outputs.npy"), expected, rtol=0, atol=1e-6)


@one_backend
def test_a_loaded_model_holds_the_cell_once(tmp_path):
    model = functional(layers.BahdanauCell(GRU(UNITS), layers.BahdanauAttention(7)))
    give_values(model, 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    model.save_weights(tmp_path / "model.weights.h5")
    give_values(loaded, 2)
    loaded.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(to_float64(loaded(feed())), to_float64(model(feed())), rtol=0, atol=1e-6)


@one_backend
def test_weights_of_a_functional_model_need_one_length():
    cell = layers.LuongCell(GRU(UNITS), layers.MultiDimAttention(7), JOINED, return_attention_scores=True)
    model = functional(cell, value_length=5)
    assert model.output_shape == (None, None, JOINED + VALUE_DIM * 5)
    outputs, weights = cell.split(model.output)
    assert outputs.shape == (None, None, JOINED) and weights.shape == (None, VALUE_DIM, None, 5)
    _, weights = cell.split(to_float64(model(feed())))
    np.testing.assert_allclose(to_float64(weights)[0, :, 0].sum(-1), 1, atol=1e-6)
    for other in (None, 6):
        with pytest.raises(
            ValueError, match=r"one fixed Tv.*Received values .None, .*Input a length, or use AttentionRNN"
        ):
            cell.initial_state(keras.Input((other, VALUE_DIM)))
    unknown = layers.LuongCell(GRU(UNITS), layers.LuongAttention(), JOINED, return_attention_scores=True)
    with pytest.raises(ValueError, match="one fixed Tv"):
        functional(unknown)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
def test_graphs_of_unknown_sizes_and_their_gradients_equal_eager(jit_compile):
    import tensorflow as tf

    cell = luong(layers.CoverageAttention(7), stacked(), feed="context")
    rnn = keras.layers.RNN(cell, return_sequences=True)

    def outputs_and_gradients(embedded, value, steps, kept):
        with tf.GradientTape() as tape:
            tape.watch([embedded, value])
            outputs = rnn(embedded, initial_state=cell.initial_state(value, mask=kept), mask=steps)
            loss = tf.reduce_sum(outputs**2)
        return outputs, *tape.gradient(loss, [embedded, value, *(one.value for one in cell.trainable_variables)])

    specs = [tf.TensorSpec((None, None, size)) for size in (EMBEDDED, VALUE_DIM)] + [
        tf.TensorSpec((None, None), tf.bool)
    ] * 2
    compiled = tf.function(outputs_and_gradients, input_signature=specs, jit_compile=jit_compile)
    inputs = [tf.constant(one) for one in (*draw(), QUERY_MASK, VALUE_MASK)]
    for got, expected in zip(compiled(*inputs), outputs_and_gradients(*inputs), strict=True):
        np.testing.assert_allclose(to_float64(got), to_float64(expected), rtol=1e-5, atol=1e-5)


def step_exportable(cell):
    """One step: inputs and states in, output and states out."""
    sizes = [JOINED, *cell.cell_sizes, VALUE_DIM, "progress", "keys", "values", "value"]
    axes = {"inputs": ("batch", EMBEDDED), **{f"state_{n}": ("batch", size) for n, size in enumerate(sizes)}}

    def function(given):
        output, states = cell(given["inputs"], [[given[f"state_{n}"] for n in range(len(sizes))]])
        return {"output": output, **{f"new_state_{n}": one for n, one in enumerate(states[0])}}

    return Exportable(function, axes, dict.fromkeys(axes, "float32"))


STEPPING = {
    "general": lambda: layers.LuongAttention(),
    "coverage": lambda: layers.CoverageAttention(7),
    "local-m": lambda: layers.LocalAttention(1, "monotonic"),
    "monotonic": lambda: layers.MonotonicAttention("location_aware", 7),
    "hard": lambda: layers.HardAttention(),
}


@tensorflow_only
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("attention", STEPPING.values(), ids=STEPPING.keys())
def test_a_step_converts_to_tflite_and_onnx(attention, tmp_path):
    cell = luong(attention(), LSTM(UNITS))
    exportable, feeds, expected = step_exportable(cell), [], []
    for value_length in (5, 7):  # the second step, whose states are not 0
        embedded, value = draw(batch=1, value_length=value_length)
        mask = np.arange(value_length)[None] < value_length - 2
        _, states = cell(embedded[:, 0], cell.initial_state(value, mask=mask))
        given = {
            "inputs": embedded[:, 1],
            **{f"state_{n}": ops.convert_to_numpy(one) for n, one in enumerate(states[0])},
        }
        feeds.append(given)
        expected.append({name: to_float64(one) for name, one in exportable.function(given).items()})
    for found in (
        run_tflite(to_tflite(exportable, tmp_path, {"batch": 1}), feeds),
        run_onnx(to_onnx(exportable), feeds),
    ):
        for got, one in zip(found, expected, strict=True):
            for name in one:
                np.testing.assert_allclose(got[name], one[name], rtol=0, atol=1e-4, err_msg=name)


MADE = {
    "Bahdanau": lambda **more: bahdanau(layers.CoverageAttention(7), stacked(), output_context=True, **more),
    "Luong": lambda **more: luong(layers.LuongAttention("concat", 7, dropout=0.2), feed="context", **more),
}


@one_backend
@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_config_makes_an_equal_cell(make):
    cell = make(return_attention_scores=True, seed=3, name="decoder")
    config = json.loads(json.dumps(cell.get_config()))
    twin = type(cell).from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    twin.build_memory((None, None, VALUE_DIM))
    twin.build((None, EMBEDDED))
    twin.set_weights(cell.get_weights())
    np.testing.assert_allclose(in_rnn(twin)[0], in_rnn(cell)[0], rtol=0, atol=1e-6)


@one_backend
def test_the_precisions_of_the_parts_may_differ():
    cell = luong(layers.LuongAttention(dtype="mixed_bfloat16"), GRU(UNITS), dtype="mixed_float16")
    outputs, _ = in_rnn(cell)
    np.testing.assert_allclose(outputs, in_rnn(luong())[0], rtol=0, atol=0.05)


def attention():
    return layers.LuongAttention()


@one_backend
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: layers.BahdanauCell(keras.layers.GRU(8), attention()),
            TypeError,
            r"`cell` must be an RNN cell.*has one as its `cell`.*<GRU",
        ),
        (lambda: layers.BahdanauCell([GRU(8)], attention()), TypeError, "several go into keras.layers.StackedRNNCells"),
        (lambda: layers.BahdanauCell("gru", attention()), TypeError, "`cell` must be an RNN cell.*'gru'"),
        (
            lambda: layers.LuongCell(GRU(8), keras.layers.Attention(), 9),
            TypeError,
            "`attention` must be an AttentionLayer.*<Attention",
        ),
        (lambda: layers.LuongCell(GRU(8), attention(), 0), ValueError, r"`units` must be an int > 0\. Received 0"),
        (
            lambda: layers.LuongCell(GRU(8), attention(), 9, feed="all"),
            ValueError,
            "`feed` must be one of nothing, context, attentional.*'all'",
        ),
        (lambda: layers.AttentionRNN(GRU(8)), TypeError, "`cell` must be a BahdanauCell or a LuongCell.*<GRUCell"),
        (lambda: layers.AttentionRNN(luong(return_attention_scores=True)), ValueError, "Make the cell without"),
    ],
)
def test_wrong_parts_are_refused(make, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        make()


@one_backend
def test_a_cell_whose_first_state_is_not_its_output_is_refused():
    class Odd(keras.layers.Layer):
        state_size, output_size = 8, 5

        def call(self, inputs, states):
            return states[0][:, :5], states

    with pytest.raises(ValueError, match="first state of the inner cell must be its output.*Odd.*output_size=5"):
        layers.LuongCell(Odd(), attention(), 9)


@one_backend
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cell, e, v: keras.layers.RNN(cell)(e), "cannot start without values.*initial_state=cell.initial_state"),
        (lambda cell, e, v: keras.layers.RNN(cell, stateful=True)(e), "cannot be stateful"),
        (
            lambda cell, e, v: cell(e[:, 0], [np.zeros((2, UNITS))]),
            "7 tensors. Received 1.*initial_state.value, states=",
        ),
        (
            lambda cell, e, v: cell.initial_state(v, states=[np.zeros((2, 3))]),
            r"`states` must be those of the inner GRUCell, .\(2, 8\).. Received .\(2, 3\)",
        ),
        (lambda cell, e, v: cell.initial_state(v, states=[np.zeros((2, UNITS))] * 2), "of an encoder of the same kind"),
        (
            lambda cell, e, v: cell.initial_state(v[..., :4]),
            r"built for a value of width 6. Received value \(2, 5, 4\)",
        ),
        (lambda cell, e, v: cell.initial_state(v[0]), r"`value` must be of rank 3.*\(5, 6\)"),
        (lambda cell, e, v: cell.initial_state(v, v[:, :4]), "must have the same length Tv"),
        (
            lambda cell, e, v: cell.split(e[..., :1] * np.zeros(JOINED)),
            "There are no weights in the outputs.*return_attention_scores=True",
        ),
    ],
)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call(luong(), *draw())


@one_backend
def test_a_cell_that_has_seen_no_values_says_so():
    cell = layers.LuongCell(GRU(UNITS), attention(), JOINED)
    for use in (lambda: cell.build((None, EMBEDDED)), lambda: cell(draw()[0][:, 0], [np.zeros((2, 9))])):
        with pytest.raises(ValueError, match=r"LuongCell has no values.*initial_state=cell.initial_state\(value"):
            use()
    with pytest.raises(TypeError, match="value mask must be bool"):
        cell.initial_state(draw()[1], mask=VALUE_MASK.astype("float32"))


@one_backend
def test_a_copied_attention_rnn_is_equal():
    """`clone_model` makes each layer from its config: the cell is in one layer."""
    inputs = [keras.Input((None, EMBEDDED)), keras.Input((None, VALUE_DIM))]
    cell = layers.BahdanauCell(LSTM(UNITS, dropout=0.2), layers.BahdanauAttention(7))
    model = keras.Model(inputs, layers.AttentionRNN(cell)(inputs))
    give_values(model, 1)
    twin = keras.models.clone_model(model)
    assert [one.path for one in twin.weights] == [one.path for one in model.weights]
    twin.set_weights(model.get_weights())
    np.testing.assert_allclose(to_float64(twin(draw())), to_float64(model(draw())), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", [None, QUERY_MASK], ids=["all steps", "masked steps"])
def test_an_unrolled_attention_rnn_is_equal(mask):
    cell, arguments = luong(layers.CoverageAttention(7)), {"mask": [mask, VALUE_MASK], "return_attention_scores": True}
    found, expected = (layers.AttentionRNN(cell, unroll=unroll)(draw(), **arguments) for unroll in (True, False))
    for got, one in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_float64(got), to_float64(one), rtol=0, atol=1e-6)


@one_backend
def test_the_examples_of_the_docstrings_run():
    embedded, value = keras.random.normal((2, 3, 4)), keras.random.normal((2, 5, 6))
    cell = layers.BahdanauCell(GRU(8), layers.BahdanauAttention(units=16))
    decoder = keras.layers.RNN(cell, return_sequences=True)
    assert decoder(embedded, initial_state=cell.initial_state(value)).shape == (2, 3, 8)
    cell = layers.LuongCell(GRU(8), layers.LuongAttention("general"), units=7)
    decoder = keras.layers.RNN(cell, return_sequences=True)
    assert decoder(embedded, initial_state=cell.initial_state(value)).shape == (2, 3, 7)
    decoder = layers.AttentionRNN(layers.BahdanauCell(GRU(8), layers.BahdanauAttention(units=16)))
    outputs, weights = decoder([embedded, value], return_attention_scores=True)
    assert (outputs.shape, weights.shape) == ((2, 3, 8), (2, 3, 5))

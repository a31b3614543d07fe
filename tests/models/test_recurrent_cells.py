from __future__ import annotations

import keras
import numpy as np
import pytest

from keras_attention.models.recurrent_cells import CELLS

B, D, F, U = 2, 3, 4, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference_step(kind, weights, x, feed, states):
    """One step in float64, from the equations: a GRU whose reset gate acts after the product, an LSTM with forget
    gates."""
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    whole = x @ w["kernel"] + w["bias"] + (feed @ w["feed_kernel"] if feed is not None else 0)
    inner = states[0] @ w["recurrent_kernel"]
    if kind == "gru":
        (h,) = states
        update = sigmoid(whole[:, :U] + inner[:, :U])
        reset = sigmoid(whole[:, U : 2 * U] + inner[:, U : 2 * U])
        candidate = np.tanh(whole[:, 2 * U :] + reset * (inner[:, 2 * U :] + w["recurrent_bias"]))
        return [update * h + (1 - update) * candidate]
    write, forget, new, out = np.split(whole + inner, 4, axis=1)
    c = sigmoid(forget) * states[1] + sigmoid(write) * np.tanh(new)
    return [sigmoid(out) * np.tanh(c), c]


def made(kind, feed_units=0, dtype="float64"):
    random = np.random.default_rng(4)
    cell = CELLS[kind](U, feed_units, dtype=dtype)
    cell.build((None, D))
    for weight in cell.weights:
        weight.assign(random.normal(size=weight.shape))
    weights = {weight.name: weight.numpy() for weight in cell.weights}
    states = [random.normal(size=(B, U)) for _ in range(cell.num_states)]
    return cell, weights, random.normal(size=(B, D)), random.normal(size=(B, F)), states


@pytest.mark.parametrize("feed_units", [0, F])
@pytest.mark.parametrize("kind", list(CELLS))
def test_a_step_equals_the_equations(kind, feed_units):
    cell, weights, x, feed, states = made(kind, feed_units)
    feed = feed if feed_units else None
    wanted = reference_step(kind, weights, x, feed, states)
    output, found = cell(x, states, feed)
    np.testing.assert_allclose(output, wanted[0], atol=1e-12)
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


@pytest.mark.parametrize(("kind", "theirs"), [("gru", keras.layers.GRUCell), ("lstm", keras.layers.LSTMCell)])
def test_a_step_equals_that_of_keras_with_the_same_weights(kind, theirs):
    cell, weights, x, _, states = made(kind)
    other = theirs(U, dtype="float64")
    other.build((None, D))
    bias = (
        np.stack([weights["bias"], np.concatenate([np.zeros(2 * U), weights["recurrent_bias"]])])
        if kind == "gru"
        else weights["bias"]
    )
    other.set_weights([weights["kernel"], weights["recurrent_kernel"], bias])
    np.testing.assert_allclose(cell(x, states)[0], other(x, states)[0], atol=1e-12)


@pytest.mark.parametrize("kind", list(CELLS))
def test_a_cell_works_inside_keras_rnn_and_survives_its_config(kind):
    cell, weights, *_ = made(kind)
    layer = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    x = np.random.default_rng(1).normal(size=(B, 4, D))
    outputs = layer(x)
    copy = CELLS[kind].from_config(cell.get_config())
    copy.build((None, D))
    copy.set_weights(cell.get_weights())
    states = [np.zeros((B, U)) for _ in range(cell.num_states)]
    for t in range(4):
        states = reference_step(kind, weights, x[:, t], None, states)
        np.testing.assert_allclose(outputs[:, t], states[0], atol=1e-12)
    np.testing.assert_allclose(keras.layers.RNN(copy, return_sequences=True, dtype="float64")(x), outputs)


def test_the_forget_gate_starts_open():
    cell = CELLS["lstm"](U)
    cell.build((None, D))
    np.testing.assert_array_equal(cell.bias.numpy(), [0.0] * U + [1.0] * U + [0.0] * 2 * U)

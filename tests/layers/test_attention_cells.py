"""`BahdanauCell` and `LuongCell` in `keras.layers.RNN`, step by step and in `AttentionRNN`.

That the latter gives what the papers say is in `cases/attention_cells.py`; here the other two ways equal it.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import layers
from keras_attention.layers.cell_state import as_columns, from_columns
from tests.backends import gradients, one_backend, to_float64
from tests.layers.conformance import contents, give_values

EMBEDDED, UNITS, JOINED, VALUE_DIM = 4, 8, 9, 6
VALUE_MASK = np.array([[True, True, True, False, False], [True] * 5])
QUERY_MASK = np.array([[True, False, True, True], [True, True, True, False]])
GRU, LSTM = keras.layers.GRUCell, keras.layers.LSTMCell


def draw(seed=0, batch=2, query_length=4, value_length=5):
    rng = np.random.default_rng(seed)
    shapes = ((batch, query_length, EMBEDDED), (batch, value_length, VALUE_DIM))
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def bahdanau(attention=None, inner=None, **options):
    return ready(layers.BahdanauCell(inner or GRU(UNITS), attention or layers.BahdanauAttention(7), **options))


def luong(attention=None, inner=None, **options):
    return ready(layers.LuongCell(inner or GRU(UNITS), attention or layers.LuongAttention(), JOINED, **options))


def ready(cell):
    """Built, with other values in each weight."""
    cell.build_memory((None, None, VALUE_DIM))
    cell.build((None, EMBEDDED))
    give_values(cell, 1)
    return cell


def stacked():
    return keras.layers.StackedRNNCells([LSTM(7), LSTM(UNITS)])


def in_rnn(cell, inputs=None, mask=None, states=None, training=None, **options):
    """`keras.layers.RNN` over the cell → outputs, states."""
    embedded, value = inputs or draw()
    start = cell.initial_state(value, mask=VALUE_MASK, states=states, training=training)
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True, **options)
    outputs, *states = rnn(embedded, initial_state=start, mask=mask, training=training)
    return to_float64(outputs), states


def step_by_step(cell, steps=range(4)):
    """The cell alone → outputs of those steps of the inputs, states."""
    embedded, value = draw()
    states, outputs = cell.initial_state(value, mask=VALUE_MASK), []
    for t in steps:
        output, states = cell(embedded[:, t], states)
        outputs.append(to_float64(output))
    return np.stack(outputs, 1), states


CELLS = {
    "Luong, coverage, LSTMs": lambda **more: luong(layers.CoverageAttention(7), stacked(), feed="context", **more),
    "Bahdanau, local-m": lambda **more: bahdanau(layers.LocalAttention(1, "monotonic"), output_context=True, **more),
    "Luong, monotonic": lambda **more: luong(
        layers.MonotonicAttention("location_aware", 7, inference="expected"), **more
    ),
    "Bahdanau, channels": lambda **more: bahdanau(
        layers.MultiDimAttention(7), keras.layers.SimpleRNNCell(UNITS), **more
    ),
    "Luong, hard": lambda **more: luong(layers.HardAttention(), feed="nothing", **more),
}
each_cell = pytest.mark.parametrize("make", CELLS.values(), ids=CELLS.keys())


@each_cell
def test_rnn_steps_and_attention_rnn_are_the_same(make):
    cell = make(return_attention_scores=True)
    outputs, _ = in_rnn(cell)
    np.testing.assert_allclose(step_by_step(cell)[0], outputs, rtol=0, atol=1e-6)
    found = [to_float64(one) for one in cell.split(outputs)]
    beside = make()
    beside.set_weights(cell.get_weights())
    np.testing.assert_allclose(in_rnn(beside)[0], found[0], rtol=0, atol=1e-6)
    expected = layers.AttentionRNN(beside)(draw(), mask=[None, VALUE_MASK], return_attention_scores=True)
    for got, one in zip(found, expected, strict=True):
        assert got.shape == tuple(one.shape)
        np.testing.assert_allclose(got, to_float64(one), rtol=0, atol=1e-6)


@pytest.mark.parametrize("unroll", [False, True])
def test_a_masked_step_keeps_all_states_and_repeats_the_output(unroll):
    cell = luong(layers.CoverageAttention(7), LSTM(UNITS))
    outputs, states = in_rnn(cell, mask=QUERY_MASK, unroll=unroll)
    expected, last = step_by_step(cell, [0, 2, 3])
    np.testing.assert_allclose(outputs[0, [0, 2, 3]], expected[0], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(outputs[0, 1], outputs[0, 0])
    np.testing.assert_array_equal(outputs[1, 3], outputs[1, 2])
    for got, one in zip(keras.tree.flatten(states), keras.tree.flatten(last), strict=True):
        np.testing.assert_allclose(to_float64(got)[0], to_float64(one)[0], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(to_float64(cell.unpack(states).step), [3, 3])


STATELESS_AND_NOT = {
    "additive": lambda: layers.BahdanauAttention(7),
    "coverage": lambda: layers.CoverageAttention(7),
    "local-m": lambda: layers.LocalAttention(1, "monotonic"),
    "monotonic": lambda: layers.MonotonicAttention(units=7, inference="expected"),
}


@one_backend
@pytest.mark.parametrize("attention", STATELESS_AND_NOT.values(), ids=STATELESS_AND_NOT.keys())
def test_the_attention_called_on_all_states_at_once_looks_at_the_same_places(attention):
    (_, value), start = draw(), np.random.default_rng(1).normal(size=(2, UNITS)).astype("float32")
    cell = bahdanau(attention(), return_attention_scores=True)
    states, weights = cell.split(in_rnn(cell, states=start)[0])
    asked = np.concatenate([start[:, None], states[:, :-1]], axis=1).astype("float32")  # s_0 … s_{T-1}
    called = {"mask": [None, VALUE_MASK], "return_attention_scores": True}
    _, expected = cell.attention([asked, value], **called)
    np.testing.assert_allclose(weights, to_float64(expected), rtol=0, atol=1e-5)

    # Where nothing is fed back, the states of Luong's order are those of the inner cell alone.
    cell = luong(attention(), feed="nothing", return_attention_scores=True)
    outputs, weights = cell.split(in_rnn(cell, states=start)[0])
    asked = keras.layers.RNN(cell.cell, return_sequences=True)(draw()[0], initial_state=start)
    context, expected = cell.attention([asked, value], **called)
    np.testing.assert_allclose(weights, to_float64(expected), rtol=0, atol=1e-5)
    both = np.concatenate([to_float64(context), to_float64(asked)], axis=-1)
    np.testing.assert_allclose(outputs, np.tanh(both @ to_float64(cell.combine_kernel)), rtol=0, atol=1e-5)


@one_backend
def test_coverage_adds_up_and_steps_are_counted():
    cell = bahdanau(layers.CoverageAttention(7), return_attention_scores=True)
    outputs, states = in_rnn(cell)
    _, weights = cell.split(outputs)
    np.testing.assert_allclose(to_float64(cell.unpack(states).attention), weights.sum(1), rtol=0, atol=1e-5)
    local = luong(layers.LocalAttention(1, "monotonic"))
    np.testing.assert_array_equal(to_float64(local.unpack(in_rnn(local, mask=QUERY_MASK)[1]).attention), [3, 3])


@one_backend
def test_the_states_continue_where_they_stopped():
    cell, (embedded, value) = luong(layers.CoverageAttention(7), LSTM(UNITS)), draw()
    whole, _ = in_rnn(cell)
    first, states = in_rnn(cell, [embedded[:, :3], value])
    rest = keras.layers.RNN(cell, return_sequences=True)(embedded[:, 3:], initial_state=states)
    np.testing.assert_allclose(np.concatenate([first, to_float64(rest)], 1), whole, rtol=0, atol=1e-6)


class MinimalCell(keras.layers.Layer):
    """The least that Keras asks of an RNN cell: no `output_size`, no `get_initial_state`."""

    state_size = UNITS

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], UNITS), name="kernel")
        self.recurrent_kernel = self.add_weight(shape=(UNITS, UNITS), name="recurrent_kernel")

    def call(self, inputs, states):
        output = ops.tanh(ops.matmul(inputs, self.kernel) + ops.matmul(states[0], self.recurrent_kernel))
        return output, [output]


@one_backend
@pytest.mark.parametrize("order", [bahdanau, luong])
def test_a_cell_of_the_users_own_is_as_good_as_one_of_keras(order):
    cell, twin = order(inner=MinimalCell()), order(inner=keras.layers.SimpleRNNCell(UNITS, use_bias=False))
    twin.set_weights(cell.get_weights())
    np.testing.assert_allclose(in_rnn(cell)[0], in_rnn(twin)[0], rtol=0, atol=1e-6)


def test_rows_of_the_states_can_be_gathered():
    cell, (embedded, _) = bahdanau(layers.CoverageAttention(7), stacked()), draw()
    _, states = step_by_step(cell, [0, 1])
    output, _ = cell(embedded[:, 2], states)
    rows = np.array([1, 1, 0])
    gathered = keras.tree.map_structure(lambda one: ops.take(one, rows, axis=0), states)
    again, _ = cell(embedded[rows, 2], gathered)
    np.testing.assert_allclose(to_float64(again), to_float64(output)[rows], rtol=0, atol=1e-6)


@one_backend
def test_more_padding_of_the_values_changes_nothing():
    cell, (embedded, value) = luong(layers.CoverageAttention(7)), draw()
    padded, mask = np.pad(value, ((0, 0), (0, 2), (0, 0)), constant_values=3), np.pad(VALUE_MASK, ((0, 0), (0, 2)))
    rnn = keras.layers.RNN(cell, return_sequences=True)
    short, long = (
        rnn(embedded, initial_state=cell.initial_state(v, mask=m)) for v, m in ((value, VALUE_MASK), (padded, mask))
    )
    np.testing.assert_allclose(to_float64(long), to_float64(short), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", [None, QUERY_MASK], ids=["all steps", "masked steps"])
def test_gradients_through_the_states_are_those_beside_them(mask):
    cell = luong(layers.CoverageAttention(7), LSTM(UNITS), feed="context")
    rnn, beside = keras.layers.RNN(cell, return_sequences=True), layers.AttentionRNN(cell)
    seen = ops.convert_to_tensor((np.ones((2, 4)) if mask is None else mask)[..., None].astype("float32"))

    def through(embedded, value):
        return ops.sum(seen * rnn(embedded, initial_state=cell.initial_state(value, mask=VALUE_MASK), mask=mask) ** 2)

    def around(embedded, value):
        return ops.sum(seen * beside([embedded, value], mask=[mask, VALUE_MASK]) ** 2)

    found, expected = (gradients(one, draw(), cell.trainable_variables) for one in (through, around))
    for got, one in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        assert (one != 0).any()
        np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-5)
    assert (found[0][1][~VALUE_MASK] == 0).all()


def test_nothing_is_stored_on_the_cell():
    cell = luong(layers.LuongAttention(dropout=0.5), GRU(UNITS, dropout=0.5))
    in_rnn(cell, training=True)
    before = contents(cell)
    in_rnn(cell, training=True, mask=QUERY_MASK)
    assert contents(cell) == before


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_counts_and_sums_in_float32(policy):
    attention, inner = layers.CoverageAttention(7, dtype=policy), GRU(UNITS, dtype=policy)
    cell = luong(attention, inner, dtype=policy)
    output, states = cell(*(lambda e, v: (e[:, 0], cell.initial_state(v, mask=VALUE_MASK)))(*draw()))
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    assert {keras.backend.standardize_dtype(one.dtype) for one in keras.tree.flatten(states)} == {"float32"}
    near, _ = step_by_step(luong(layers.CoverageAttention(7)))
    np.testing.assert_allclose(in_rnn(cell)[0], near, rtol=0, atol=0.05)


def test_any_int_travels_through_float32():
    numbers = [np.array([2**31 - 1, -(2**31)], "int32"), np.array([[3001, -1], [0, 2**24 + 1]], "int32")]
    state = [ops.convert_to_tensor(numbers[0]), {"a": ops.convert_to_tensor(numbers[1])}]
    columns = as_columns(state, "float32")
    assert tuple(columns.shape) == (2, 6)
    back = from_columns(state, columns)
    np.testing.assert_array_equal(ops.convert_to_numpy(back[0]), numbers[0])
    np.testing.assert_array_equal(ops.convert_to_numpy(back[1]["a"]), numbers[1])


def test_dropout_of_the_inner_cell_has_one_mask_for_all_steps_and_that_of_the_attention_one_for_each():
    cell = bahdanau(layers.BahdanauAttention(7), keras.layers.SimpleRNNCell(UNITS, dropout=0.5, seed=1))
    cell.cell.recurrent_kernel.assign(np.zeros((UNITS, UNITS)))
    same = [np.ones((2, 4, EMBEDDED), "float32"), np.zeros((2, 5, VALUE_DIM), "float32")]
    first, again, without = (in_rnn(cell, same, training=training)[0] for training in (True, True, False))
    np.testing.assert_allclose(first, np.repeat(first[:, :1], 4, axis=1), rtol=0, atol=1e-6)
    assert not np.allclose(first, again) and not np.allclose(first, without)

    cell = bahdanau(layers.BahdanauAttention(7, dropout=0.5), output_context=True)
    cell.attention.score.query_kernel.assign(np.zeros((UNITS, 7)))  # so that all steps look at the same
    contexts = in_rnn(cell, training=True)[0][..., UNITS:]
    assert not np.allclose(contexts[:, 0], contexts[:, 1])
    quiet = in_rnn(cell)[0][..., UNITS:]
    np.testing.assert_allclose(quiet[:, 0], quiet[:, 1], rtol=0, atol=1e-6)


@one_backend
def test_seed_makes_training_repeat():
    def twice(seed):
        cell = luong(layers.LuongAttention(dropout=0.5, seed=1), GRU(UNITS, dropout=0.5, seed=1), seed=seed)
        return [in_rnn(cell, training=True)[0] for _ in range(2)]

    (first, second), (again, _), (other, _) = twice(3), twice(3), twice(4)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, second) and not np.allclose(first, other)


def test_hard_attention_draws_at_each_step_and_counts_a_sequence_as_one_call():
    attention = layers.HardAttention(temperature=layers.ExponentialTemperature(2.0, 0.5, 0.1))
    cell = luong(attention, return_attention_scores=True)
    cell.attention.score.kernel.assign(np.zeros((VALUE_DIM, UNITS)))  # all places are as likely
    embedded, value = draw(batch=16, query_length=8)
    rnn = keras.layers.RNN(cell, return_sequences=True)

    def places(training):
        states = cell.initial_state(value, training=training)
        _, weights = cell.split(to_float64(rnn(embedded, initial_state=states, training=training)))
        np.testing.assert_allclose(weights.max(-1), 1, atol=1e-6)
        return weights.argmax(-1)

    drawn = places(training=True)
    assert len({tuple(row) for row in drawn}) > 12 and len({tuple(step) for step in drawn.T}) == 8
    assert int(to_float64(attention.step)) == 1
    assert (places(training=False) == 0).all() and int(to_float64(attention.step)) == 1
    assert (places(training=True) != drawn).any() and int(to_float64(attention.step)) == 2

"""Decoders: the steps of `attend` make one map."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import attention_maps
from keras_attention.layers import CoverageAttention, LocalAttention, LuongAttention
from tests.backends import tensorflow_only
from tests.inspection.models import WIDTH, Calling, array, draw, names, weights_of

QUERY, VALUE = draw(2, 4, WIDTH), draw(2, 5, WIDTH, seed=1)
MASK = np.array([[True, True, True, False, False], [True] * 5])
LAYERS = {
    "luong": lambda: LuongAttention("general", name="look"),
    "coverage": lambda: CoverageAttention(4, name="look"),
    "local": lambda: LocalAttention(1, position="monotonic", score="general", name="look"),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def steps(layer, query, prepared):
    """A decoder's loop in Python → contexts and weights of each step."""
    state, contexts, weights = layer.initial_state(prepared), [], []
    for place in range(query.shape[1]):
        context, one, state = layer.attend(query[:, place], prepared, state)
        contexts.append(context)
        weights.append(one)
    return ops.stack(contexts, axis=1), array(ops.stack(weights, axis=1)).astype("float32")


def built(make):
    layer = make()
    layer.build([QUERY.shape, VALUE.shape])
    return layer


def loop(look, inputs):
    query, value = inputs
    return steps(look, query, look.prepare(value, mask=ops.convert_to_tensor(MASK)))[0]


@each_layer
def test_a_loop_in_python_makes_one_map(make):
    layer = built(make)
    expected = steps(layer, ops.convert_to_tensor(QUERY), layer.prepare(VALUE, mask=ops.convert_to_tensor(MASK)))[1]
    maps = attention_maps(Calling(loop, layer), [QUERY, VALUE])
    assert names(maps) == ["look"]
    np.testing.assert_array_equal(weights_of(maps), expected)
    assert (weights_of(maps)[0, :, 3:] == 0).all()


@each_layer
def test_loops_over_other_keys_make_maps_of_their_own(make):
    layer = built(make)

    def call(look, inputs):
        query, value = inputs
        first = steps(look, query, look.prepare(value))[0]
        return steps(look, first, look.prepare(2 * value))[0]

    maps = attention_maps(Calling(call, layer), [QUERY, VALUE])
    assert names(maps) == ["look[call=0]", "look[call=1]"]
    assert weights_of(maps, 1).shape == (2, 4, 5)


@pytest.mark.parametrize("name", ["coverage", "local"])
def test_the_state_of_a_first_step_begins_a_map(name):
    layer = built(LAYERS[name])
    maps = attention_maps(Calling(lambda look, x: loop(look, x) + loop(look, x), layer), [QUERY, VALUE])
    assert [one.weights.shape for one in maps[0]] == [(4, 5), (4, 5)]
    np.testing.assert_array_equal(weights_of(maps, 0), weights_of(maps, 1))


class Cache(NamedTuple):
    key: Any
    length: Any


class Past(keras.layers.Layer):
    """Attends to what it saw so far: the state is a cache."""

    weights_axes = ()

    def call(self, inputs):
        raise NotImplementedError

    def attend(self, inputs, state):
        place = ops.one_hot(state.length, 4)[:, :, None]
        state = Cache(state.key + place * inputs[:, None], state.length + 1)
        kept = ops.arange(4) < state.length[:, None]
        score = ops.where(kept, ops.einsum("bd,btd->bt", inputs, state.key), -1e9)
        weights = ops.softmax(score)
        return ops.einsum("bt,btd->bd", weights, state.key), weights, state


def test_a_cache_that_grows_makes_one_map():
    def call(past, inputs):
        for query in (inputs, inputs[:, :3]):
            state = Cache(ops.zeros((2, 4, WIDTH)), ops.zeros((2,), "int32"))
            for place in range(query.shape[1]):
                read, _, state = past.attend(query[:, place], state)
        return read

    layer = Past(name="past")
    layer.built = True
    model = Calling(call, layer)
    maps = attention_maps(model, QUERY)
    assert [(one.name, one.weights.shape) for one in maps[0]] == [("past[call=0]", (4, 4)), ("past[call=1]", (3, 4))]
    np.testing.assert_array_equal(weights_of(maps) > 0, np.broadcast_to(np.tri(4, dtype=bool), (2, 4, 4)))
    np.testing.assert_array_equal(weights_of(maps)[:, :3], weights_of(maps, 1))


def test_two_memories_seen_in_turns_have_a_map_each():
    first, second = (built(lambda name=name: LuongAttention(name=name)) for name in ("first", "second"))

    def call(first, second, inputs):
        query, value = inputs
        one, other = first.prepare(value), second.prepare(value[:, :3])
        read = [first.attend(query[:, t], one)[0] + second.attend(query[:, t], other)[0] for t in range(query.shape[1])]
        return ops.stack(read, axis=1)

    maps = attention_maps(Calling(call, first, second), [QUERY, VALUE])
    assert [(one.name, one.weights.shape) for one in maps[0]] == [("first", (4, 5)), ("second", (4, 3))]


class Cell(keras.layers.Layer):
    """A tiny decoder cell: it attends with the sum of input and state, and carries the memory in its state."""

    def __init__(self, attention, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.state_size = [WIDTH, (5, WIDTH)]

    def build(self, input_shape):
        self.attention.build([(None, None, WIDTH), (None, None, WIDTH)])

    def call(self, inputs, states):
        hidden, memory = states
        prepared = self.attention.prepare(memory, mask=ops.convert_to_tensor(MASK))
        context, _, _ = self.attention.attend(inputs + hidden, prepared)
        hidden = ops.tanh(context)
        return hidden, [hidden, memory]


def expected_of_cell(layer, query):
    hidden, rows = ops.zeros((2, WIDTH)), []
    prepared = layer.prepare(VALUE, mask=ops.convert_to_tensor(MASK))
    for place in range(query.shape[1]):
        context, weights, _ = layer.attend(query[:, place] + hidden, prepared)
        hidden = ops.tanh(context)
        rows.append(array(weights).astype("float32"))
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("options", [{}, {"unroll": True}, {"return_sequences": True}], ids=["plain", "unroll", "all"])
def test_a_cell_in_a_keras_rnn_has_a_row_for_each_step_and_no_other(options):
    layer = LuongAttention("general", name="look")
    rnn = keras.layers.RNN(Cell(layer), **options)

    def call(rnn, inputs):
        query, value = inputs
        return rnn(query, initial_state=[ops.zeros((2, WIDTH)), value])

    maps = attention_maps(Calling(call, rnn), [QUERY, VALUE])
    assert names(maps) == ["look"]
    np.testing.assert_allclose(weights_of(maps), expected_of_cell(layer, ops.convert_to_tensor(QUERY)), atol=1e-6)


def test_two_runs_of_a_keras_rnn_make_two_maps():
    rnn = keras.layers.RNN(Cell(LuongAttention(name="look")))

    def call(rnn, inputs):
        query, value = inputs
        return rnn(query, initial_state=[ops.zeros((2, WIDTH)), value]) + rnn(
            query[:, :3], initial_state=[ops.zeros((2, WIDTH)), value]
        )

    maps = attention_maps(Calling(call, rnn), [QUERY, VALUE])
    assert [one.weights.shape for one in maps[0]] == [(4, 5), (3, 5)]
    np.testing.assert_allclose(weights_of(maps)[:, :3], weights_of(maps, 1), atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class Looking(keras.layers.Layer):
    """A cell over a fixed memory."""

    state_size = output_size = WIDTH

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = LuongAttention(name="look")

    def build(self, input_shape):
        self.attention.build([(None, None, WIDTH), (None, None, WIDTH)])

    def call(self, inputs, states):
        context, _, _ = self.attention.attend(inputs + states[0], self.attention.prepare(VALUE))
        return context, [context]


@pytest.mark.parametrize("wrap", ["stacked", "bidirectional"])
def test_cells_in_wrappers_have_a_row_for_each_step(wrap):
    if wrap == "stacked":
        net = keras.layers.RNN([Looking(), Looking()])
    else:
        net = keras.layers.Bidirectional(
            keras.layers.RNN(Looking()), backward_layer=keras.layers.RNN(Looking(), go_backwards=True)
        )
    maps = attention_maps(Calling(lambda net, x: net(x), net), QUERY)
    assert [one.weights.shape for one in maps[0]] == [(4, 5), (4, 5)]
    assert len({one.layer for one in maps[0]}) == 2


def test_a_scan_makes_one_map():
    layer = built(LAYERS["luong"])

    def call(look, inputs):
        query, value = inputs
        prepared = look.prepare(value)

        def step(hidden, one):
            hidden = look.attend(one + hidden, prepared)[0]
            return hidden, hidden

        return ops.scan(step, ops.zeros((2, WIDTH)), ops.transpose(query, (1, 0, 2)))[0]

    maps = attention_maps(Calling(call, layer), [QUERY, VALUE])
    assert names(maps) == ["look"]
    assert weights_of(maps).shape == (2, 4, 5)
    first = array(layer.attend(ops.convert_to_tensor(QUERY[:, 0]), layer.prepare(VALUE))[1])
    np.testing.assert_allclose(weights_of(maps)[:, 0], first, atol=1e-6)


def test_align_for_all_steps_at_once_is_heard():
    """As a decoder does that feeds nothing back."""
    layer = built(LAYERS["luong"])

    def call(look, inputs):
        query, value = inputs
        prepared = look.prepare(value)
        return look.read(look.align(query, prepared, None), prepared.value)

    maps = attention_maps(Calling(call, layer), [QUERY, VALUE])
    expected = array(layer([QUERY, VALUE], return_attention_scores=True)[1]).astype("float32")
    np.testing.assert_array_equal(weights_of(maps), expected)


@tensorflow_only
@pytest.mark.parametrize("feed", ["nothing", "attentional"])
def test_the_maps_of_a_translation_model(feed):
    from tests.tiny import make_model

    model = make_model(feed=feed)
    source = np.array([[5, 9, 11, 3, 0, 0], [7, 8, 12, 20, 21, 3]], "int32")
    target = np.array([[30, 31, 3, 0], [32, 33, 34, 3]], "int32")
    maps = attention_maps(model, {"source": source, "target": target})
    assert names(maps) == ["attention"]
    weights = weights_of(maps)
    assert weights.shape == (2, 4, 6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert (weights[0, :, 4:] == 0).all()

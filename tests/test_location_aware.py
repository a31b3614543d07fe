from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import layers, scores
from tests import reference
from tests.backends import gradients, to_float64
from tests.layers.conformance import attend, give_values, masks

_, VALUE_MASK, ATTENTION_MASK = masks()


def draw(value_length=5):
    rng = np.random.default_rng(0)
    shapes = ((2, 3, 7), (2, value_length, 6), (2, value_length, 4))
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def built(filters=3, kernel_size=4, **more):
    layer = layers.LuongAttention(scores.LocationAwareScore(8, filters, kernel_size), **more)
    layer.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    give_values(layer, 1)
    return layer


def weights_by_name(layer):
    return {weight.name: to_float64(weight.value) for weight in layer.weights}


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 9])
def test_one_query_is_scored_as_in_the_paper(kernel_size):
    score = scores.LocationAwareScore(8, 3, kernel_size)
    score.build([(None, None, 7), (None, None, 4)])
    give_values(score, 1)
    query, _, key = draw()
    previous = np.random.default_rng(1).dirichlet(np.ones(5), size=2).astype("float32")
    prepared = score.prepare_key(ops.convert_to_tensor(key))
    one = score.prepare_query(ops.convert_to_tensor(query), prepared)[:, 1]
    got = to_float64(score.score_step(one, prepared, ops.convert_to_tensor(previous)))
    for b in range(2):
        expected = reference.location_aware_scores(query[b, 1], key[b], previous[b], weights_by_name(score))
        np.testing.assert_allclose(got[b], expected, atol=1e-5)


@pytest.mark.parametrize("alignment", ["softmax", "sparsemax"])
def test_each_query_sees_the_weights_of_the_one_before(alignment):
    layer, (query, value, key) = built(alignment=alignment), draw()
    _, weights = attend(layer, [query, value, key], mask=[None, VALUE_MASK])
    align = {"softmax": reference.masked_softmax, "sparsemax": reference.masked_sparsemax}[alignment]
    previous = np.zeros((2, 5))
    for t in range(3):
        score = np.stack(
            [reference.location_aware_scores(query[b, t], key[b], previous[b], weights_by_name(layer)) for b in (0, 1)]
        )
        previous = align(score, VALUE_MASK)
        np.testing.assert_allclose(weights[:, t], previous, atol=1e-5)


def test_the_first_query_is_scored_as_by_the_additive_score():
    layer, inputs = built(), draw()
    plain = layers.BahdanauAttention(8, use_bias=True)
    plain.build([one.shape for one in inputs])
    for name in ("query_kernel", "key_kernel", "bias", "scale"):
        getattr(plain.score, name).assign(getattr(layer.score, name))
    (_, weights), (_, expected) = attend(layer, inputs), attend(plain, inputs)
    np.testing.assert_allclose(weights[:, 0], expected[:, 0], atol=1e-6)
    assert not np.allclose(weights[:, 1], expected[:, 1], atol=1e-3)
    layer.score.location_kernel.assign(np.zeros((3, 8)))
    np.testing.assert_allclose(attend(layer, inputs)[1], expected, atol=1e-6)


def test_it_learns_to_step_to_the_right():
    """All keys and queries are equal: only the weights before can tell where to look next."""
    length = 6
    keras.utils.set_random_seed(1)
    layer = layers.LuongAttention(scores.LocationAwareScore(8, filters=4, kernel_size=3))
    query, value = keras.Input((length, 2)), keras.Input((length, length + 1))
    # The key says whether a place is the first, nothing else.
    _, weights = layer([query, value, value[..., :1]], return_attention_scores=True)
    model = keras.Model([query, value], weights)
    model.compile(keras.optimizers.Adam(0.1), "categorical_crossentropy")
    values = np.concatenate([np.eye(length)[:, :1], np.eye(length)], axis=-1)[None]
    data = [np.repeat(one, 60, 0) for one in (np.ones((1, length, 2)), values, np.eye(length)[None])]
    model.fit(data[:2], data[2], batch_size=1, verbose=0)
    found = to_float64(model([one[:1] for one in data[:2]]))
    assert (found[0].argmax(-1) == np.arange(length)).all()
    assert found[0].diagonal().min() > 0.8


def test_a_masked_query_leaves_the_memory_as_it_was():
    layer, (query, value, key) = built(), draw()
    mask = np.array([[True, False, True]] * 2)
    _, weights = attend(layer, [query, value, key], mask=[mask, None])
    _, without = attend(layer, [query[:, [0, 2]], value, key])
    np.testing.assert_allclose(weights[:, [0, 2]], without, atol=1e-6)


def test_the_state_of_a_decoder_is_the_weights_of_its_last_step():
    layer, (query, value, key) = built(dtype="mixed_float16"), draw()
    query, value, key = (ops.cast(one, "float16") for one in (query, value, key))
    prepared = layer.prepare(value, key, VALUE_MASK)
    state = layer.initial_state(prepared)
    assert keras.backend.standardize_dtype(state.dtype) == "float32" and (to_float64(state) == 0).all()
    _, weights, state = layer.attend(query[:, 0], prepared, state)
    np.testing.assert_array_equal(to_float64(state), to_float64(weights))


def test_gradients_reach_the_weights_before():
    """The last row depends on the filters only through the rows before it."""
    layer, inputs = built(), draw()

    def last(query, value, key):
        arguments = {"mask": [None, VALUE_MASK], "attention_mask": ATTENTION_MASK, "training": True}
        return ops.sum(layer([query, value, key], **arguments)[:, -1])

    (of_query, *_), of_weights = gradients(last, inputs, layer.trainable_variables)
    for gradient in of_weights:
        assert np.isfinite(gradient).all() and (gradient != 0).any()
    assert (of_query != 0).any(-1).all()


def test_the_plain_function_is_that_of_the_paper():
    rng = np.random.default_rng(4)
    shapes = {"query": (2, 8), "key": (2, 5, 8), "previous": (2, 5), "filters": (3, 1, 2), "kernel": (2, 8)}
    arrays = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    scale = rng.normal(size=8).astype("float32")
    got = scores.location_aware(*map(ops.convert_to_tensor, arrays.values()), ops.convert_to_tensor(scale))
    weights = {
        "query_kernel": np.eye(8),
        "key_kernel": np.eye(8),
        "bias": np.zeros(8),
        "filter_kernel": arrays["filters"],
        "location_kernel": arrays["kernel"],
        "scale": scale,
    }
    for b in range(2):
        expected = reference.location_aware_scores(arrays["query"][b], arrays["key"][b], arrays["previous"][b], weights)
        np.testing.assert_allclose(to_float64(got)[b], expected, atol=1e-5)


def test_config_names_all_arguments():
    layer = built(filters=5, kernel_size=7)
    config = json.loads(json.dumps(layer.get_config()))
    assert config["score"]["config"].items() >= {"units": 8, "filters": 5, "kernel_size": 7}.items()
    twin = layers.LuongAttention.from_config(config)
    twin.build([(None, None, 7), (None, None, 6), (None, None, 4)])
    twin.set_weights(layer.get_weights())
    np.testing.assert_array_equal(attend(twin, draw())[1], attend(layer, draw())[1])


def test_get_makes_it_with_its_options():
    made = scores.get("location_aware", units=8, kernel_size=31)
    assert (type(made), made.units, made.filters, made.kernel_size) == (scores.LocationAwareScore, 8, 10, 31)
    with pytest.raises(ValueError, match=r"'location_aware' has a hidden layer: give its width as `units`"):
        scores.get("location_aware")


@pytest.mark.parametrize(
    "make",
    [
        lambda score: layers.HardAttention(score),
        lambda score: layers.LocalAttention(2, score=score),
        lambda score: layers.HardAttention("location_aware", 8),
    ],
)
def test_layers_that_score_all_at_once_refuse_it(make):
    message = r"scores all queries at once.*LocationAwareScore, whose scores depend.*Use LuongAttention or Monotonic"
    with pytest.raises(ValueError, match=message):
        make(scores.LocationAwareScore(8))


def test_multi_dim_attention_refuses_it():
    with pytest.raises(ValueError, match=r"'location_aware' has no channels"):
        layers.MultiDimAttention(8, "location_aware")


def test_it_has_no_score_of_all_queries():
    with pytest.raises(TypeError, match=r"LocationAwareScore scores one query after the other.*Use it in a layer"):
        scores.LocationAwareScore(8)([draw()[0], draw()[2]])


def test_a_step_without_a_state_is_refused():
    layer, (query, value, key) = built(), draw()
    with pytest.raises(ValueError, match=r"LuongAttention looks back.*Received none\. Pass `layer\.initial_state"):
        layer.attend(query[:, 0], layer.prepare(value, key))


@pytest.mark.parametrize("argument", ["units", "filters", "kernel_size"])
def test_wrong_arguments_are_refused(argument):
    with pytest.raises(ValueError, match=rf"`{argument}` must be an int > 0\. Received 0"):
        scores.LocationAwareScore(**{"units": 8, argument: 0})

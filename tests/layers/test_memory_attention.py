from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import MemoryAttention
from keras_attention.layers.position_encoding import sum_words, word_weights
from tests.backends import float64_only, gradients, tensorflow_only, to_float64
from tests.layers.cases.memory_attention import CASES
from tests.layers.conformance import give_values

QUERY = np.array([[3, 4, 0, 0], [5, 6, 7, 8]], "int32")
MEMORIES = np.array(
    [[[1, 2, 3], [4, 5, 0], [0, 0, 0], [6, 7, 8]], [[9, 1, 0], [2, 0, 0], [3, 4, 5], [0, 0, 0]]], "int32"
)


def built(**more):
    layer = MemoryAttention(**{"vocabulary_size": 11, "embedding_dim": 7, "max_memories": 9, **more})
    layer.build()
    give_values(layer, 1)
    return layer


def look(layer, inputs, **more):
    state, weights = layer(inputs, return_attention_scores=True, **more)
    return to_float64(state), to_float64(weights)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=float64_only)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_are_those_of_the_paper(case, dtype):
    layer = case.make(dtype=dtype)
    layer.build()
    give_values(layer, 1)
    for array in [*layer.embeddings, *layer.times]:  # small, so that no hop is decided by one memory alone
        array.assign(ops.convert_to_tensor(array) / 3)
    everything = {name: np.ones(case.shape(axes), bool) for name, axes in case.masks.items()}
    own = {weight.path: to_float64(weight.value) for weight in layer.weights}
    drawn = case.draw()
    for masks in (everything, case.draw_masks()):
        got, expected = case.call(layer, drawn, masks), case.reference(drawn, masks, own)
        for name, one in expected.items():
            scale = max(1.0, np.abs(one).max())
            bound = scale * (1e-5 if dtype == "float32" else 1e-12)
            np.testing.assert_allclose(to_float64(got[name]), one, rtol=0, atol=bound)


def test_words_count_by_their_place():
    """Section 4.1, by hand: J = 2, d = 2. l = (1 − j/2) − (k/2)(1 − j): j = 1: 1/2, 1/2; j = 2: 1/2, 1."""
    embedded = np.array([[[10.0, 100.0], [1.0, 1.0], [7.0, 7.0]]], "float32")
    keep = np.array([[True, True, False]])
    got = sum_words(word_weights(keep, True), ops.convert_to_tensor(embedded))
    np.testing.assert_allclose(to_float64(got), [[5 + 0.5, 50 + 1]], atol=1e-5)
    # 1 + 4 (k − 1.5) (j − 2.5) / 8: j = 1: 1 + 3/8, 1 − 3/8; j = 2: 1 + 1/8, 1 − 1/8
    got = sum_words(word_weights(keep, True, length=4), ops.convert_to_tensor(embedded), centred=True)
    np.testing.assert_allclose(to_float64(got), [[13.75 + 1.125, 62.5 + 0.875]], atol=1e-5)
    got = sum_words(word_weights(keep, False), ops.convert_to_tensor(embedded))
    np.testing.assert_allclose(to_float64(got), [[11, 101]], atol=1e-5)


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
def test_hops_share_their_embeddings(tying):
    layer = built(hops=3, tying=tying)
    names = {weight.name: tuple(weight.shape) for weight in layer.trainable_weights}
    words, times = (11, 7), (9, 7)
    if tying == "adjacent":
        expected = {**{f"embedding_{k}": words for k in range(4)}, **{f"time_{k}": times for k in range(4)}}
        assert layer.query_embedding is layer.embeddings[0] and layer.answer_embedding is layer.embeddings[3]
    else:
        expected = {**{f"embedding_{k}": words for k in range(2)}, **{f"time_{k}": times for k in range(2)}}
        expected |= {"query_embedding": words, "answer_embedding": words, "state_kernel": (7, 7)}
    assert names == expected


def test_weights_begin_as_the_paper_says():
    layer = MemoryAttention(500, 64, tying="layer_wise", max_memories=400)
    layer.build()
    for weight in layer.trainable_weights:
        assert np.std(to_float64(weight.value)) == pytest.approx(0.1, rel=0.05)
        assert np.mean(to_float64(weight.value)) == pytest.approx(0, abs=0.01)


def test_padding_counts_nowhere():
    layer = built()
    state, weights = look(layer, [QUERY, MEMORIES])
    assert (weights[0, :, 2] == 0).all() and (weights[1, :, 3] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)

    query = np.array([[0, 3, 0, 4, 0], [5, 6, 0, 7, 8]])
    memories = np.zeros((2, 7, 5), "int32")
    memories[0, [1, 2, 6]] = [[0, 1, 2, 0, 3], [4, 5, 0, 0, 0], [0, 0, 6, 7, 8]]
    memories[1, [0, 3, 4]] = [[9, 0, 0, 0, 1], [0, 0, 2, 0, 0], [3, 4, 5, 0, 0]]
    elsewhere_state, elsewhere = look(layer, [query, memories])
    np.testing.assert_allclose(elsewhere_state, state, atol=1e-5)
    np.testing.assert_allclose(elsewhere[0][:, [1, 2, 6]], weights[0][:, [0, 1, 3]], atol=1e-6)
    np.testing.assert_allclose(elsewhere[1][:, [0, 3, 4]], weights[1][:, [0, 1, 2]], atol=1e-6)


def test_without_a_memory_the_question_stays_as_it_was():
    layer = built(hops=2)
    nothing = np.concatenate([MEMORIES[:1] * 0, MEMORIES[1:]])
    state, weights = look(layer, [QUERY, nothing])
    assert (weights[0] == 0).all() and (weights[1].sum(-1) > 0.99).all()
    table = to_float64(layer.embeddings[0].value)
    # J = 2: word 1 counts 1/2 in each channel, word 2 counts k/d.
    expected = table[3] / 2 + table[4] * np.arange(1, 8) / 7
    np.testing.assert_allclose(state[0], expected, atol=1e-6)

    def function():
        return ops.sum(layer([QUERY, MEMORIES * 0]))

    _, of_weights = gradients(function, [], layer.trainable_variables)
    assert all(np.isfinite(gradient).all() for gradient in of_weights)
    assert (of_weights[0] != 0).any() and all((gradient == 0).all() for gradient in of_weights[1:])


def test_the_order_of_the_memories_counts_with_temporal_encoding_only():
    for temporal in (True, False):
        layer = built(temporal_encoding=temporal)
        state, weights = look(layer, [QUERY, MEMORIES])
        turned_state, turned = look(layer, [QUERY, MEMORIES[:, ::-1]])
        assert np.allclose(turned_state, state, atol=1e-4) != temporal
        assert np.allclose(turned[..., ::-1], weights, atol=1e-4) != temporal


def test_padding_gets_no_gradient():
    layer = built(tying="layer_wise")
    directions = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 11)), dtype="float32")
    _, of_weights = gradients(
        lambda: ops.sum(layer.logits(layer([QUERY, MEMORIES])) * directions), [], layer.trainable_variables
    )
    for weight, gradient in zip(layer.trainable_weights, of_weights, strict=True):
        assert np.isfinite(gradient).all() and (gradient != 0).any()
        if "embedding" in weight.name:
            assert (gradient[0] == 0).all()
        if "time" in weight.name:
            assert (gradient[:3] != 0).any(-1).all() and (gradient[3:] == 0).all()


@float64_only
@pytest.mark.parametrize("length", [None, 3, 7, 12])
def test_padding_changes_no_gradient_whatever_the_length_of_the_places(length):
    """In float64: three hops make float32 uncertain in the fifth place where the scores are large."""
    layer = built(dtype="float64", position_length=length)
    found = []
    padded = np.pad(QUERY, ((0, 0), (0, 3))), np.pad(MEMORIES, ((0, 0), (0, 2), (0, 3)))
    for query, memories in ((QUERY, MEMORIES), padded):
        _, of_weights = gradients(lambda q=query, m=memories: ops.sum(layer([q, m])), [], layer.trainable_variables)
        found.append(of_weights)
    for short, long in zip(*found, strict=True):
        np.testing.assert_allclose(long, short, rtol=0, atol=1e-11 * max(1.0, np.abs(short).max()))


def test_time_noise_leaves_gaps_in_training_only():
    layer = built(time_noise=0.25, max_memories=30, seed=3)
    keep = np.ones((4000, 20), bool)
    keep[:, 5] = False
    still = to_float64(layer.ages(keep))
    np.testing.assert_array_equal(still[0], [18, 17, 16, 15, 14, 13, 13, *range(12, -1, -1)])
    np.testing.assert_array_equal(to_float64(layer.ages(keep, training=False)), still)
    noisy = to_float64(layer.ages(keep, training=True))
    kept = noisy[:, keep[0]]
    steps = kept[:, :-1] - kept[:, 1:]
    below = kept[:, :-1] < 29
    assert set(np.unique(steps[below])) == {1, 2} and kept.max() <= 29
    assert (kept[:, -1] > 0).mean() == pytest.approx(0.25, abs=0.03)
    assert (steps[:, 9:] == 2).mean() == pytest.approx(0.25, abs=0.01)
    assert not np.array_equal(to_float64(layer.ages(keep, training=True)), noisy)

    state, _ = look(layer, [QUERY, MEMORIES])
    np.testing.assert_array_equal(look(layer, [QUERY, MEMORIES])[0], state)
    assert not np.allclose(look(layer, [QUERY, MEMORIES], training=True)[0], state, atol=1e-4)


def test_ages_never_pass_the_last_row():
    layer = built(time_noise=0.9, max_memories=9, seed=3)
    ages = to_float64(layer.ages(np.ones((50, 9), bool), training=True))
    assert ages.max() == 8 and (ages >= np.arange(8, -1, -1)).all()


def test_linear_start_is_switched_off_and_saved(tmp_path):
    query, memories = keras.Input((None,), dtype="int32"), keras.Input((None, None), dtype="int32")
    layer = MemoryAttention(11, 7, linear_start=True, name="memory")
    model = keras.Model([query, memories], layer([query, memories], return_attention_scores=True))
    give_values(model, 2)
    linear = to_float64(model([QUERY, MEMORIES])[1])
    assert (linear < 0).any()
    model.save(tmp_path / "linear.keras")
    layer.linear_start.assign(False)
    assert "linear_start" not in [weight.name for weight in model.trainable_weights]
    soft = to_float64(model([QUERY, MEMORIES])[1])
    np.testing.assert_allclose(soft.sum(-1), 1, atol=1e-6)
    model.save(tmp_path / "soft.keras")
    for name, expected in (("linear", linear), ("soft", soft)):
        loaded = keras.saving.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_array_equal(to_float64(loaded([QUERY, MEMORIES])[1]), expected)
        assert loaded.get_layer("memory").get_config()["linear_start"] is True
    twin = keras.Model.from_config(model.get_config())
    twin.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_float64(twin([QUERY, MEMORIES])[1]), soft)


def test_a_compiled_model_sees_the_switch():
    layer = built(linear_start=True)
    query, memories = keras.Input((None,), dtype="int32"), keras.Input((None, None), dtype="int32")
    model = keras.Model([query, memories], layer([query, memories], return_attention_scores=True)[1])
    linear = model.predict([QUERY, MEMORIES], verbose=0)
    layer.linear_start.assign(False)
    soft = model.predict([QUERY, MEMORIES], verbose=0)
    np.testing.assert_allclose(soft.sum(-1), 1, atol=1e-6)
    assert not np.allclose(linear.sum(-1), 1, atol=1e-2)


def test_logits_are_those_of_the_tied_embedding():
    layer = built()
    state, _ = look(layer, [QUERY, MEMORIES])
    logits = to_float64(layer.logits(ops.convert_to_tensor(state, dtype="float32")))
    expected = state @ to_float64(layer.embeddings[-1].value).T
    np.testing.assert_allclose(logits[:, 1:], expected[:, 1:], rtol=1e-5, atol=1e-5)
    assert (logits[:, 0] == 0).all()


def test_logits_of_a_functional_model_learn(tmp_path):
    query, memories = keras.Input((None,), dtype="int32"), keras.Input((None, None), dtype="int32")
    layer = MemoryAttention(11, 7, tying="layer_wise")
    logits = layer.logits(layer([query, memories]))
    assert logits.shape == (None, 11)
    model = keras.Model([query, memories], logits)
    before = [to_float64(weight.value) for weight in layer.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit([QUERY, MEMORIES], np.array([1, 2]), verbose=0)
    for old, weight in zip(before, layer.trainable_weights, strict=True):
        assert not np.array_equal(old, to_float64(weight.value))
    model.save(tmp_path / "answers.keras")
    loaded = keras.saving.load_model(tmp_path / "answers.keras")
    np.testing.assert_array_equal(to_float64(loaded([QUERY, MEMORIES])), to_float64(model([QUERY, MEMORIES])))


def stories(number, seed):
    """Who went where, six moves a story, then: where is somebody? → query, memories, answers. Word 0 is padding."""
    rng = np.random.default_rng(seed)
    people, places, went, where = np.array([1, 2, 3]), np.array([4, 5, 6, 7]), 8, 9
    movers = rng.choice(people, (number, 6))
    movers[:, :3] = rng.permuted(np.broadcast_to(people, (number, 3)), axis=1)  # everybody moves
    goals = rng.choice(places, (number, 6))
    asked = rng.choice(people, number)
    last = 5 - np.argmax(movers[:, ::-1] == asked[:, None], axis=1)
    memories = np.stack([movers, np.full_like(movers, went), goals], axis=-1)
    query = np.stack([np.full_like(asked, where), asked], axis=-1)
    return query, memories, goals[np.arange(number), last]


def test_learns_where_everybody_is():
    """The last move of whoever is asked for: it takes content and time together."""
    layer = MemoryAttention(10, 16, hops=2, max_memories=8, time_noise=0.1, seed=1)
    query, memories = keras.Input((2,), dtype="int32"), keras.Input((6, 3), dtype="int32")
    model = keras.Model([query, memories], layer.logits(layer([query, memories])))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    query, memories, answers = stories(500, 0)
    model.fit([query, memories], answers, batch_size=50, epochs=12, verbose=0)
    query, memories, answers = stories(500, 1)
    assert model.evaluate([query, memories], answers, verbose=0)[1] > 0.95


@tensorflow_only
def test_a_graph_refuses_too_many_memories():
    import tensorflow as tf

    layer = built(max_memories=5)
    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, None], tf.int32)]
    compiled = tf.function(lambda query, memories: layer([query, memories]), input_signature=signature)
    np.testing.assert_allclose(to_float64(compiled(QUERY, MEMORIES)), look(layer, [QUERY, MEMORIES])[0], atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError):
        compiled(QUERY, np.ones((2, 6, 3), "int32"))


def test_config_names_all_arguments():
    options = {
        "vocabulary_size": 20,
        "embedding_dim": 8,
        "hops": 2,
        "tying": "layer_wise",
        "position_encoding": False,
        "position_length": 9,
        "temporal_encoding": False,
        "max_memories": 7,
        "time_noise": 0.2,
        "linear_start": True,
        "seed": 4,
        "name": "story",
    }
    config = json.loads(json.dumps(MemoryAttention(**options).get_config()))
    assert config.items() >= options.items()
    assert json.loads(json.dumps(MemoryAttention.from_config(config).get_config())) == config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, r"`vocabulary_size` must be an int > 0\. Received 0"),
        ({"embedding_dim": -3}, r"`embedding_dim` must be an int > 0\. Received -3"),
        ({"position_length": 0}, r"`position_length` must be an int > 0\. Received 0"),
        ({"hops": 0}, r"`hops` must be an int > 0\. Received 0"),
        ({"max_memories": 2.5}, r"`max_memories` must be an int > 0\. Received 2\.5"),
        ({"tying": "none"}, r"`tying` must be one of adjacent, layer_wise\. Received 'none'"),
        ({"time_noise": 1.0}, r"`time_noise` must be a share in \[0, 1\)\. Received 1\.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MemoryAttention(**{"vocabulary_size": 11, "embedding_dim": 7, **arguments})


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (QUERY, ValueError, r"wants a list \[query, memories\].*Received: one tensor"),
        ([QUERY], ValueError, r"wants a list \[query, memories\].*Received: a list of 1"),
        ([QUERY[0], MEMORIES], ValueError, r"`query` must be \(B, Wq\), word ids\. Received \(4,\)"),
        ([QUERY, MEMORIES[0]], ValueError, r"`memories` must be \(B, S, W\), word ids\. Received \(4, 3\)"),
        ([QUERY[:1], MEMORIES], ValueError, r"same batch size B.*query \(1, 4\), memories \(2, 4, 3\)"),
        ([QUERY, MEMORIES.astype("float32")], TypeError, r"`memories` must be word ids, ints\. Received float32"),
        ([QUERY, np.ones((2, 10, 3), "int32")], ValueError, r"S = 10, max_memories = 9.*memories\[:, -9:\]"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(inputs, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        built()(inputs)


def test_without_temporal_encoding_there_may_be_any_number_of_memories():
    assert look(built(temporal_encoding=False), [QUERY, np.ones((2, 10, 3), "int32")])[1].shape == (2, 3, 10)


def test_the_example_of_the_docstring_runs():
    layer = MemoryAttention(vocabulary_size=20, embedding_dim=8)
    query, memories = keras.ops.array([[1, 2]]), keras.ops.array([[[3, 4, 5], [6, 7, 0]]])
    state, weights = layer([query, memories], return_attention_scores=True)
    assert (state.shape, weights.shape, layer.logits(state).shape) == ((1, 8), (1, 3, 2), (1, 20))

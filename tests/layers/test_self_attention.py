from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import KeyValueCache, MultiHeadAttention, SelfAttention
from tests import reference
from tests.backends import float64_only, one_backend, tensorflow_only, to_float64
from tests.layers.cases.multi_head_attention import by_part, vaswani
from tests.layers.conformance import HALVES, give_values
from tests.layers.exporting import Exportable, run_onnx, run_tflite, to_onnx, to_tflite

DIM, LENGTH, MAX_LENGTH = 6, 5, 8
MASK = np.array([[True] * 5, [True] * 3 + [False] * 2])
PAIRS = np.random.default_rng(4).random((2, 5, 5)) < 0.6
PAIRS[..., 0] = True


def draw(seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=(2, LENGTH, DIM)).astype(dtype)


def built(seed=1, **options):
    layer = SelfAttention(**{"num_heads": 3, **options})
    layer.build((None, None, DIM))
    give_values(layer, seed)
    return layer


def attend(layer, inputs, **arguments):
    output, weights = layer(inputs, return_attention_scores=True, **arguments)
    return to_float64(output), to_float64(weights)


# One tensor in, one out


def test_is_multi_head_attention_of_a_sequence_and_itself():
    inputs = draw()
    layer, pair = built(key_dim=4, value_dim=5), MultiHeadAttention(3, 4, 5)
    pair.build(*[(None, None, DIM)] * 3)
    pair.set_weights(layer.get_weights())
    assert to_float64(layer(inputs)).shape == (2, LENGTH, DIM)
    got = attend(layer, inputs, mask=MASK, attention_mask=PAIRS, use_causal_mask=True)
    masks = {"query_mask": MASK, "value_mask": MASK, "attention_mask": PAIRS, "use_causal_mask": True}
    expected = pair(inputs, inputs, return_attention_scores=True, **masks)
    for mine, yours in zip(got, expected, strict=True):
        np.testing.assert_array_equal(mine, to_float64(yours))


def test_heads_share_the_width_of_the_inputs():
    layer = built(num_heads=2)
    assert layer.query_dense.kernel.shape == layer.value_dense.kernel.shape == (DIM, 2, 3)
    assert built(num_heads=1).query_dense.kernel.shape == (DIM, 1, DIM)
    assert layer.get_config()["key_dim"] is None


def test_moving_places_moves_rows_and_columns_of_the_weights():
    layer, inputs, order = built(), draw(), [3, 0, 4, 1, 2]
    output, weights = attend(layer, inputs, mask=MASK)
    moved_output, moved_weights = attend(layer, inputs[:, order], mask=MASK[:, order])
    np.testing.assert_allclose(moved_output, output[:, order], rtol=0, atol=1e-5)
    np.testing.assert_allclose(moved_weights, weights[:, :, order][..., order], rtol=0, atol=1e-6)
    assert not np.allclose(moved_weights, weights, atol=1e-3)


IDS = np.array([[5, 7, 9, 2, 0], [3, 0, 0, 0, 0]])


def test_takes_the_mask_that_keras_propagates_and_passes_it_on():
    model = keras.Sequential(
        [keras.layers.Embedding(11, DIM, mask_zero=True), SelfAttention(3), keras.layers.GlobalAveragePooling1D()]
    )
    shorter = to_float64(model(IDS[:, :4]))
    np.testing.assert_allclose(to_float64(model(IDS)), shorter, rtol=0, atol=1e-6)
    embedded, layer = model.layers[0](IDS), model.layers[1]
    output, weights = attend(layer, embedded)
    np.testing.assert_array_equal(output, attend(layer, to_float64(embedded).astype("float32"), mask=IDS != 0)[0])
    assert (output[IDS == 0] == 0).all() and (output[IDS != 0] != 0).all()
    assert (weights[np.broadcast_to((IDS == 0)[:, None, None], weights.shape)] == 0).all()


def test_the_mask_that_keras_propagates_holds_beside_an_attention_mask():
    ids, pairs = keras.Input((None,), dtype="int32"), keras.Input((None, None), dtype="bool")
    layer = SelfAttention(3)
    embedded = keras.layers.Embedding(11, DIM, mask_zero=True)(ids)
    outputs = layer(embedded, attention_mask=pairs, return_attention_scores=True)
    weights = to_float64(keras.Model([ids, pairs], outputs)([IDS, PAIRS])[1])
    keep = reference.full_mask((2, 5, 5), IDS != 0, IDS != 0, PAIRS)[:, None]
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(keep, weights.shape))


def test_time_distributed_heeds_the_mask_of_each_slice():
    layer, document = built(), np.stack([draw(0), draw(1), draw(2)], axis=1)
    masks = np.stack([MASK, MASK[::-1], MASK & False], axis=1)
    together = to_float64(keras.layers.TimeDistributed(layer)(document, mask=ops.convert_to_tensor(masks)))
    for t in range(3):
        alone = to_float64(layer(document[:, t], mask=masks[:, t]))
        np.testing.assert_allclose(together[:, t], alone, rtol=0, atol=1e-5)
    assert (together[:, 2] == 0).all() and (together[:, :2] != 0).any()


def test_values_under_all_masks_are_those_of_the_paper():
    layer, inputs = built(), draw()
    heads = np.random.default_rng(5).random((2, 3, 5, 5)) < 0.7
    output, weights = attend(layer, inputs, mask=MASK, attention_mask=heads, use_causal_mask=True)
    mask = heads & reference.full_mask((2, 5, 5), MASK, MASK, None, causal=True)[:, None]
    wide = inputs.astype("float64")
    own = by_part({one.path: to_float64(one.value) for one in layer.weights})
    expected_output, expected_weights = vaswani(wide, wide, wide, mask, own)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=1e-5)
    np.testing.assert_allclose(output, expected_output, rtol=0, atol=1e-5)


@one_backend
def test_finds_the_place_that_matters():
    """Which of the places carries a mark is told only by looking at all of them."""
    rng = np.random.default_rng(0)
    marked, values = rng.integers(0, 6, 256), rng.normal(size=(256, 6, 1))
    inputs = np.concatenate([values, np.eye(6)[marked][..., None]], axis=-1)
    answers = np.broadcast_to(values[np.arange(256), marked][:, None], (256, 6, 1))
    model = keras.Sequential([SelfAttention(1, key_dim=4, output_shape=1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    losses = model.fit(inputs, answers, epochs=30, batch_size=64, verbose=0).history["loss"]
    assert losses[-1] < 0.05 * losses[0]


# Decoders


def stepwise(layer, inputs, mask=None):
    """Outputs (B, T, …) and weights (B, H, T, max_length), position after position."""
    state, outputs, weights = layer.initial_state(2, MAX_LENGTH), [], []
    for t in range(inputs.shape[1]):
        given = {} if mask is None else {"mask": mask[:, t]}
        output, looked_at, state = layer.attend(inputs[:, t], state, **given)
        outputs.append(output)
        weights.append(looked_at)
    assert isinstance(state, KeyValueCache)
    return ops.stack(outputs, 1), ops.stack(weights, 2)


KINDS = {
    "scaled_dot": {},
    "concat": {"score": "concat", "units": 4, "num_heads": 2},
    "cosine_entmax15": {"score": "cosine", "alignment": "entmax15", "output_shape": 4},
}


@pytest.mark.parametrize("mask", [None, MASK, MASK & [[True], [False]]], ids=["all", "padding", "empty"])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())
def test_steps_equal_the_causal_call(options, mask):
    layer, inputs = built(**options), draw()
    expected_output, expected_weights = attend(layer, inputs, mask=mask, use_causal_mask=True)
    output, weights = (to_float64(one) for one in stepwise(layer, inputs, mask))
    np.testing.assert_allclose(output, expected_output, rtol=0, atol=1e-5)
    np.testing.assert_allclose(weights[..., :LENGTH], expected_weights, rtol=0, atol=1e-6)
    assert (weights[..., LENGTH:] == 0).all() and (output[0] != 0).all()


@pytest.mark.parametrize("policy", [*HALVES, pytest.param("float64", marks=float64_only)])
def test_steps_equal_the_causal_call_in_every_precision(policy):
    layer, inputs = built(dtype=policy), ops.cast(draw(), policy.removeprefix("mixed_"))
    expected_output, expected_weights = attend(layer, inputs, use_causal_mask=True)
    output, weights = stepwise(layer, inputs)
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(weights.dtype) == ("float64" if policy == "float64" else "float32")
    assert keras.backend.standardize_dtype(layer.initial_state(2, 3).key.dtype) == policy.removeprefix("mixed_")
    bound = HALVES.get(policy, 1e-10)
    scale = np.abs(expected_output).max()
    np.testing.assert_allclose(to_float64(output), expected_output, rtol=0, atol=bound * scale)
    np.testing.assert_allclose(to_float64(weights)[..., :LENGTH], expected_weights, rtol=0, atol=bound)


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())
def test_a_loop_in_a_graph_equals_the_causal_call(options, jit_compile):
    import tensorflow as tf

    layer, inputs = built(**options), draw()

    @tf.function(jit_compile=jit_compile, input_signature=[tf.TensorSpec([None, MAX_LENGTH, DIM])])
    def decoded(inputs):
        def step(t, state, outputs):
            output, _, state = layer.attend(inputs[:, t], state)
            return t + 1, state, outputs.write(t, output)

        start = (0, layer.initial_state(tf.shape(inputs)[0], MAX_LENGTH), tf.TensorArray("float32", MAX_LENGTH))
        _, state, outputs = tf.while_loop(lambda t, *_: t < MAX_LENGTH, step, start)
        return tf.transpose(outputs.stack(), (1, 0, 2)), state.length

    longer = np.concatenate([inputs, draw(7)], axis=1)[:, :MAX_LENGTH]
    output, length = decoded(longer)
    np.testing.assert_allclose(to_float64(output), attend(layer, longer, use_causal_mask=True)[0], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(to_float64(length), [MAX_LENGTH, MAX_LENGTH])


@tensorflow_only
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())
def test_a_loop_over_any_length_says_the_same_in_tflite_and_onnx(options, tmp_path):
    import tensorflow as tf

    layer = built(**options)
    width = layer.compute_output_shape((None, None, DIM))[-1]

    def function(given):
        inputs = given["inputs"]
        batch, length = tf.shape(inputs)[0] if inputs.shape[0] is None else inputs.shape[0], tf.shape(inputs)[1]

        def step(t, state, outputs):
            output, _, state = layer.attend(inputs[:, t], state)
            here = tf.range(length)[None, :, None] == t
            return t + 1, state, tf.where(here, output[:, None], outputs)

        start = (0, layer.initial_state(batch, MAX_LENGTH), tf.zeros([batch, length, width]))
        return {"outputs": tf.while_loop(lambda t, *_: t < length, step, start)[2]}

    exportable = Exportable(function, {"inputs": ("batch", "length", DIM)}, {"inputs": "float32"})
    longer = np.concatenate([draw(), draw(7)[:, :2]], axis=1)
    files = ((run_tflite, to_tflite(exportable, tmp_path, {"batch": 1}), 1), (run_onnx, to_onnx(exportable), 2))
    for run, file, batch in files:
        feeds = [{"inputs": one[:batch]} for one in (draw(), longer)]
        for given, found in zip(feeds, run(file, feeds), strict=True):
            expected = to_float64(layer(given["inputs"], use_causal_mask=True))
            np.testing.assert_allclose(found["outputs"], expected, rtol=0, atol=1e-4)


def test_a_beam_gathers_the_state():
    layer, inputs = built(), draw()
    state = layer.initial_state(2, MAX_LENGTH)
    assert all(leaf.shape[0] == 2 for leaf in keras.tree.flatten(state))
    for t in range(2):
        _, _, state = layer.attend(inputs[:, t], state)
    beams = [1, 0, 1]
    expected, _, _ = layer.attend(inputs[:, 2], state)
    state = keras.tree.map_structure(lambda leaf: ops.take(leaf, beams, axis=0), state)
    got, weights, state = layer.attend(inputs[beams, 2], state)
    np.testing.assert_allclose(to_float64(got), to_float64(expected)[beams], rtol=0, atol=1e-6)
    np.testing.assert_allclose(to_float64(weights).sum(-1), 1, atol=1e-6)
    np.testing.assert_array_equal(to_float64(state.length), [3, 3, 3])


def test_rows_of_other_lengths_go_on_each_from_its_own():
    layer, inputs = built(), draw()
    state = layer.initial_state(2, MAX_LENGTH)
    for t in range(3):
        _, _, state = layer.attend(inputs[:, t], state)
    fresh = layer.initial_state(2, MAX_LENGTH)
    mixed = keras.tree.map_structure(lambda old, new: ops.stack([old[0], new[1]]), state, fresh)
    output, _, mixed = layer.attend(inputs[:, 3], mixed)
    np.testing.assert_array_equal(to_float64(mixed.length), [4, 1])
    expected = to_float64(layer(inputs, use_causal_mask=True))[0, 3]
    np.testing.assert_allclose(to_float64(output)[0], expected, rtol=0, atol=1e-5)
    alone = to_float64(layer(inputs[:, 3:4]))[1, 0]
    np.testing.assert_allclose(to_float64(output)[1], alone, rtol=0, atol=1e-5)


def test_a_full_state_is_an_error():
    layer, inputs = built(), draw()
    state = layer.initial_state(2, 2)
    for t in range(2):
        _, _, state = layer.attend(inputs[:, t], state)
    with pytest.raises(ValueError, match=r"cache is full.*max_length=2 positions\. Received position 3\."):
        layer.attend(inputs[:, 2], state)


# Arguments


def test_config_names_all_arguments():
    options = {"num_heads": 2, "key_dim": 3, "value_dim": 4, "dropout": 0.25, "use_bias": False, "seed": 4}
    layer = SelfAttention(**options, score="additive", units=5, alignment="sparsemax", output_shape=7, name="looks")
    config = json.loads(json.dumps(layer.get_config()))
    expected = {**options, "score": "additive", "units": 5, "alignment": "sparsemax", "output_shape": [7]}
    assert config.items() >= {**expected, "name": "looks"}.items()
    assert json.loads(json.dumps(SelfAttention.from_config(config).get_config())) == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, r"`num_heads` must be an int > 0\. Received 0"),
        ({"key_dim": 0}, r"`key_dim` must be an int > 0\. Received 0"),
        ({"score": "location_aware", "units": 4}, r"SelfAttention asks all queries at once"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(**options)


WRONG = {
    "heads": ({"num_heads": 4}, lambda x: x, {}, ValueError, r"num_heads=4 does not divide the width 6.*`key_dim`"),
    "rank": ({}, lambda x: x[0], {}, ValueError, r"rank 3, \(B, T, D\)\. Received \(5, 6\).*MultiHeadAttention"),
    "mask": ({}, lambda x: x, {"mask": MASK[:, :4]}, ValueError, r"`mask` must be bool \(B, T\), here \(2, 5\)"),
    "float mask": ({}, lambda x: x, {"mask": MASK.astype("float32")}, TypeError, r"mask must be bool.*float32"),
    "pairs": (
        {},
        lambda x: x,
        {"attention_mask": PAIRS[:, :4]},
        ValueError,
        r"`attention_mask` must be bool .*, here \(2, 5, 5\)\. Received \(2, 4, 5\)",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_call_says_what_is_wrong(case):
    options, change, arguments, error, message = case
    with pytest.raises(error, match=f"(?s){message}"):
        SelfAttention(**options)(change(draw()), **arguments)


def test_a_wrong_step_says_what_is_wrong():
    layer, inputs = built(), draw()
    state = layer.initial_state(2, MAX_LENGTH)
    with pytest.raises(ValueError, match=r"the value of one position, \(B, D\)\. Received \(2, 5, 6\)"):
        layer.attend(inputs, state)
    with pytest.raises(ValueError, match=r"`mask` must be bool \(B,\), here \(2,\)\. Received \(2, 5\)"):
        layer.attend(inputs[:, 0], state, mask=MASK)


def test_the_example_of_the_docstring_runs():
    model = keras.Sequential([keras.layers.Embedding(100, 32, mask_zero=True), SelfAttention(num_heads=4)])
    assert model(np.array([[5, 7, 9], [3, 0, 0]])).shape == (2, 3, 32)

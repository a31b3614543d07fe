from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import OrthogonalityRegularizer, StructuredAttention
from tests import reference
from tests.backends import float64_only, gradients, tensorflow_only, to_float64
from tests.layers.conformance import give_values

ROWS, UNITS, DIM = 4, 8, 6
MASK = np.array([[True, True, True, False, False], [True] * 5])


def built(**more):
    layer = StructuredAttention(ROWS, UNITS, **more)
    layer.build((None, None, DIM))
    give_values(layer, 1)
    return layer


def draw(dtype="float32", length=5):
    return np.random.default_rng(0).normal(size=(2, length, DIM)).astype(dtype)


def expect(layer, sequence, mask=None):
    """Lin et al., 2017, equations 6 and 7, sentence by sentence: `A = softmax(W_s2 tanh(W_s1 Hᵀ))`, `M = A H`."""
    first, second = (to_float64(w.value).T for w in (layer.kernel, layer.row_kernel))
    sequence = sequence.astype("float64")
    score = np.stack([second @ np.tanh(first @ sentence.T) for sentence in sequence])
    weights = reference.masked_softmax(score, None if mask is None else mask[:, None])
    return reference.context(weights, sequence), weights


@pytest.mark.parametrize("mask", [None, MASK], ids=["nothing", "words"])
def test_values_are_those_of_the_paper(mask):
    layer, sequence = built(), draw()
    got = layer(sequence, mask=mask, return_attention_scores=True)
    for one, expected in zip(got, expect(layer, sequence, mask), strict=True):
        np.testing.assert_allclose(to_float64(one), expected, rtol=0, atol=1e-5)


@float64_only
def test_values_in_float64_are_those_of_the_paper():
    layer, sequence = built(dtype="float64"), draw("float64")
    got = layer(sequence, mask=MASK, return_attention_scores=True)
    for one, expected in zip(got, expect(layer, sequence, MASK), strict=True):
        np.testing.assert_allclose(to_float64(one), expected, rtol=0, atol=1e-12)


def test_masked_places_and_empty_rows_get_exactly_0():
    mask = np.array([[True, True, False, False, False], [False] * 5])
    context, weights = (to_float64(one) for one in built()(draw(), mask=mask, return_attention_scores=True))
    assert (weights[0, :, 2:] == 0).all() and (weights[1] == 0).all() and (context[1] == 0).all()
    np.testing.assert_allclose(weights[0].sum(-1), 1, atol=1e-6)


def test_padding_changes_nothing():
    layer, sequence = built(), draw()
    before = to_float64(layer(sequence, mask=MASK))
    sequence[~MASK] = 1e3
    np.testing.assert_array_equal(to_float64(layer(sequence, mask=MASK)), before)
    longer = np.pad(sequence, ((0, 0), (0, 3), (0, 0)), constant_values=2.0)
    padded = to_float64(layer(longer, mask=np.pad(MASK, ((0, 0), (0, 3)))))
    np.testing.assert_allclose(padded, before, rtol=0, atol=1e-6)


def test_masks_of_embeddings_arrive_and_end_here():
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 8]])
    embed, layer = keras.layers.Embedding(11, DIM, mask_zero=True), built()
    weights = to_float64(layer(embed(ids), return_attention_scores=True)[1])
    assert (weights[0, :, 2:] == 0).all() and (weights[1] > 0).all()
    assert layer.compute_mask(draw(), MASK) is None


def test_the_penalty_is_that_of_the_weights_in_every_batch():
    layer = built(weights_regularizer=OrthogonalityRegularizer(0.3))
    weights = layer(draw(), mask=MASK, return_attention_scores=True)[1]
    assert len(layer.losses) == 1
    expected = to_float64(OrthogonalityRegularizer(0.3)(weights))
    assert to_float64(layer.losses[0]) == pytest.approx(float(expected)) and expected > 0
    assert built().losses == []


def test_the_penalty_drives_the_rows_apart():
    sequence = keras.Input((None, DIM))
    layer = StructuredAttention(2, UNITS, weights_regularizer=OrthogonalityRegularizer(1.0))
    model = keras.Model(sequence, layer(sequence))
    model.compile(keras.optimizers.Adam(0.05), jit_compile=False)
    history = model.fit(draw(), epochs=40, batch_size=2, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]


@float64_only
def test_gradients_are_those_of_finite_differences():
    layer, sequence = built(dtype="float64", weights_regularizer=OrthogonalityRegularizer()), draw("float64")
    directions = np.random.default_rng(3).normal(size=(2, ROWS, DIM))

    def function(one):
        context, weights = layer(one, mask=MASK, return_attention_scores=True)
        return ops.sum(context * directions) + OrthogonalityRegularizer()(weights)

    (of_sequence,), of_weights = gradients(function, [sequence], layer.trainable_variables)
    assert (of_sequence[~MASK] == 0).all() and all((one != 0).any() for one in of_weights)
    direction, step = np.random.default_rng(4).normal(size=sequence.shape), 1e-5
    ends = [to_float64(function(sequence + sign * step * direction)) for sign in (1, -1)]
    assert np.sum(of_sequence * direction) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize(("policy", "bound"), [("mixed_float16", 2e-3), ("mixed_bfloat16", 1.5e-2)])
def test_half_precision_stays_near_float32(policy, bound):
    context, weights = built(dtype=policy)(draw(), mask=MASK, return_attention_scores=True)
    assert keras.backend.standardize_dtype(context.dtype) == policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = built()(draw(), mask=MASK, return_attention_scores=True)
    for got, one in zip((context, weights), expected, strict=True):
        np.testing.assert_allclose(to_float64(got), to_float64(one), rtol=0, atol=2 * bound)


def test_dropout_drops_in_training_only_and_never_from_the_returned_weights():
    layer = built(dropout=0.4, seed=5)
    context, weights = layer(draw(), return_attention_scores=True)
    in_training, same = layer(draw(), return_attention_scores=True, training=True)
    np.testing.assert_array_equal(to_float64(same), to_float64(weights))
    assert not np.allclose(to_float64(in_training), to_float64(context))


@tensorflow_only
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
def test_graph_and_xla_equal_eager(jit_compile):
    import tensorflow as tf

    layer, sequence = built(), draw()
    signature = [tf.TensorSpec([None, None, DIM]), tf.TensorSpec([None, None], tf.bool)]
    compiled = tf.function(lambda x, m: layer(x, mask=m), input_signature=signature, jit_compile=jit_compile)
    np.testing.assert_allclose(to_float64(compiled(sequence, MASK)), to_float64(layer(sequence, mask=MASK)), atol=1e-6)


def test_saving_and_symbolic_shapes(tmp_path):
    sequence = keras.Input((None, DIM))
    layer = StructuredAttention(ROWS, UNITS, weights_regularizer=OrthogonalityRegularizer(0.3), dropout=0.1, seed=2)
    context, weights = layer(sequence, return_attention_scores=True)
    assert (context.shape, weights.shape) == ((None, ROWS, DIM), (None, ROWS, None))
    model = keras.Model(sequence, [context, weights])
    give_values(model, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for got, expected in zip(loaded(draw()), model(draw()), strict=True):
        np.testing.assert_array_equal(to_float64(got), to_float64(expected))
    config = json.loads(json.dumps(layer.get_config()))
    assert StructuredAttention.from_config(config).get_config() == layer.get_config()
    assert config.items() >= {"rows": ROWS, "units": UNITS, "dropout": 0.1, "seed": 2}.items()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: StructuredAttention(0, 8), ValueError, r"`rows` must be an int > 0\. Received 0"),
        (lambda: StructuredAttention(4, -1), ValueError, r"`units` must be an int > 0\. Received -1"),
        (lambda: StructuredAttention(4, 8, dropout=1.0), ValueError, r"`dropout` must be a share .*Received 1\.0"),
        (lambda: StructuredAttention(4, 8)(np.ones((2, 3))), ValueError, r"rank 3, \(B, T, D\)\. Received \(2, 3\)"),
        (lambda: built()(draw(), mask=MASK.astype("float32")), TypeError, r"mask must be bool.*float32"),
        (lambda: built()(draw(), mask=MASK[:, :3]), ValueError, r"mask must be .*here \(2, 5\)\. Received \(2, 3\)"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_the_example_of_the_docstring_runs():
    layer = StructuredAttention(rows=4, units=16)
    context, weights = layer(keras.random.normal((2, 5, 6)), return_attention_scores=True)
    assert (context.shape, weights.shape) == ((2, 4, 6), (2, 4, 5))

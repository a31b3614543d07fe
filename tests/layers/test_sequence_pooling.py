"""All poolings behind one interface; what is special to each stands in a file of its own."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import AttentivePooling, GatedPooling, MaxPooling, MeanPooling, SequencePooling
from tests.backends import gradients, one_backend, to_float64
from tests.layers.conformance import give_values

DIM, UNITS = 6, 8
MASK = np.array([[True, True, True, False, False], [True] * 5])
FAMILY = {
    "attentive": lambda **more: AttentivePooling(UNITS, **more),
    "attentive without units": lambda **more: AttentivePooling(None, **more),
    "gated": lambda **more: GatedPooling(UNITS, **more),
    "max": MaxPooling,
    "mean": MeanPooling,
}
SCORED = {name: FAMILY[name] for name in ("attentive", "attentive without units", "gated")}
each_pooling = pytest.mark.parametrize("make", FAMILY.values(), ids=FAMILY.keys())
each_scored = pytest.mark.parametrize("make", SCORED.values(), ids=SCORED.keys())


def built(make, **more):
    layer = make(**more)
    layer.build((None, None, DIM))
    give_values(layer, 1)
    return layer


def draw(batch=2, length=5):
    return np.random.default_rng(0).normal(size=(batch, length, DIM)).astype("float32")


def read(layer, sequence, **more):
    context, weights = layer(sequence, return_attention_scores=True, **more)
    return to_float64(context), to_float64(weights)


@each_pooling
def test_a_context_comes_alone_or_with_its_weights(make):
    layer = built(make)
    context, weights = read(layer, draw(), mask=MASK)
    assert context.shape == (2, DIM) and weights.shape == (2, 5)
    np.testing.assert_array_equal(to_float64(layer(draw(), mask=MASK)), context)
    assert layer.compute_output_shape((None, None, DIM)) == (None, DIM)


@each_pooling
def test_masks_of_embeddings_arrive_and_end_here(make):
    ids, embed, layer = np.array([[3, 4, 0, 0], [5, 6, 7, 8]]), keras.layers.Embedding(11, DIM, mask_zero=True), make()
    context, weights = read(layer, embed(ids))
    assert (weights[0, 2:] == 0).all()
    np.testing.assert_allclose(context, read(layer, embed(ids), mask=ids != 0)[0])
    assert layer.compute_mask(draw(), MASK) is None
    assert getattr(layer(embed(ids)), "_keras_mask", None) is None


@each_pooling
def test_a_row_with_nothing_to_keep_is_0_without_a_gradient(make):
    layer, mask = built(make), np.array([[False] * 5, [True] * 5])
    context, weights = read(layer, draw(), mask=mask)
    assert (context[0] == 0).all() and (weights[0] == 0).all() and (context[1] != 0).all()

    def total(sequence):
        return ops.sum(ops.square(layer(sequence, mask=mask) - 1))

    (of_sequence,), of_weights = gradients(total, [draw()], layer.trainable_variables)
    assert (of_sequence[0] == 0).all() and (of_sequence[1] != 0).any()
    assert all(np.isfinite(one).all() and (one != 0).any() for one in of_weights)


@each_pooling
def test_each_takes_the_place_of_another_in_a_model(make):
    ids = keras.Input((None,), dtype="int32")
    pooled, weights = make()(keras.layers.Embedding(11, DIM, mask_zero=True)(ids), return_attention_scores=True)
    model = keras.Model(ids, [keras.layers.Dense(2)(pooled), weights])
    give_values(model, 3)
    short = np.array([[3, 4], [5, 6]])
    for longer, expected in zip(model(np.pad(short, ((0, 0), (0, 3)))), model(short), strict=True):
        longer, expected = to_float64(longer), to_float64(expected)
        np.testing.assert_allclose(longer[:, :2], expected, atol=1e-6)
        assert (longer[:, 2:] == 0).all()


@each_scored
def test_dropout_is_seeded(make):
    layers = [built(make, dropout=0.4, seed=7) for _ in range(2)]
    first, second = (to_float64(layer(draw(), training=True)) for layer in layers)
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(to_float64(layers[0](draw(), training=True)), first)


@each_scored
def test_other_alignments_leave_out_what_scores_low(make):
    layer = built(make, alignment="sparsemax")
    sequence = 4 * draw(length=9)
    context, weights = read(layer, sequence)
    assert (weights == 0).any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(context, np.einsum("bt,btd->bd", weights, sequence), atol=1e-5)
    assert layer.get_config()["alignment"] == "sparsemax"
    _, hardest = read(built(make, alignment="argmax"), sequence)
    np.testing.assert_array_equal(hardest.argmax(-1), weights.argmax(-1))
    assert set(hardest.flat) == {0.0, 1.0}


@one_backend
@each_scored
def test_the_place_that_decides_is_found(make):
    """One place of seven carries a mark in its first channel, and the answer in its second."""
    rng = np.random.default_rng(5)
    sequence, places = rng.normal(size=(256, 7, DIM)).astype("float32"), rng.integers(0, 7, 256)
    sequence[..., 0] = -2
    sequence[np.arange(256), places, 0] = 2
    answer = sequence[np.arange(256), places, 1]
    inputs = keras.Input((None, DIM))
    context, weights = make(name="pooling")(inputs, return_attention_scores=True)
    model, looking = keras.Model(inputs, keras.layers.Dense(1)(context)), keras.Model(inputs, weights)
    model.compile(keras.optimizers.Adam(0.05), "mse")
    model.fit(sequence, answer, epochs=25, batch_size=64, verbose=0)
    assert (to_float64(looking(sequence)).argmax(-1) == places).mean() > 0.9


@each_pooling
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: (x[0], None), ValueError, r"sequence must be of rank 3, \(B, T, D\)\. Received \(5, 6\)\. Add"),
        (lambda x: (x[None], None), ValueError, r"rank 3, \(B, T, D\)\. Received \(1, 2, 5, 6\)\. Take an axis away"),
        (
            lambda x: (x, MASK.astype("float32")),
            TypeError,
            r"mask must be bool, True = keep\. Received float32.*ids != 0",
        ),
        (lambda x: (x, MASK[:, :3]), ValueError, r"mask must be \(B, T\), here \(2, 5\)\. Received \(2, 3\)"),
        (lambda x: (x, MASK[:1]), ValueError, r"mask must be \(B, T\), here \(2, 5\)\. Received \(1, 5\)"),
        (lambda x: (x, MASK[..., None]), ValueError, r"mask must be \(B, T\).*Received \(2, 5, 1\)"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(make, change, error, message):
    sequence, mask = change(draw())
    for layer in (make(), built(make)):
        with pytest.raises(error, match=f"(?s){message}"):
            layer(sequence, mask=mask)


@each_scored
def test_wrong_arguments_are_refused(make):
    with pytest.raises(ValueError, match=r"`dropout` must be a share in \[0, 1\)\. Received 1\.5"):
        make(dropout=1.5)
    with pytest.raises(ValueError, match=r"Unknown alignment 'softmin'.*Did you mean 'softmax'"):
        make(alignment="softmin")


def test_a_pooling_of_the_users_own_needs_weights_alone():
    class FirstPooling(SequencePooling):
        def weigh(self, inputs, mask):
            return ops.one_hot(ops.zeros(ops.shape(inputs)[0], dtype="int32"), ops.shape(inputs)[1])

    sequence = draw()
    context, weights = read(FirstPooling(), sequence)
    np.testing.assert_array_equal(context, sequence[:, 0])
    np.testing.assert_array_equal(weights, [[1, 0, 0, 0, 0]] * 2)
    with pytest.raises(TypeError, match=r"SequencePooling defines no `weigh\(inputs, mask\)`"):
        SequencePooling()(sequence)

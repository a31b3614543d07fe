from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.layers import (
    AttentivePooling,
    GatedPooling,
    HierarchicalAttention,
    MaxPooling,
    MeanPooling,
)
from tests.backends import gradients, one_backend, to_float64
from tests.layers.conformance import give_values

DIM, UNITS = 6, 8
LENGTHS = np.array([[3, 5, 1], [2, 0, 0], [0, 4, 2]])  # words of each sentence: padding may stand between sentences
MASK = np.arange(5) < LENGTHS[..., None]
DOCUMENTS = np.random.default_rng(0).normal(size=(3, 3, 5, DIM)).astype("float32")


def recurrent(name=None):
    return keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True), name=name)


def built(seed=1, **options):
    layer = HierarchicalAttention(**({} if "word_pooling" in options else {"units": UNITS}), **options)
    layer.build((None, None, None, DIM))
    give_values(layer, seed)
    return layer


def read(layer, documents=DOCUMENTS, mask=MASK, **more):
    found = layer(documents, mask=mask, return_attention_scores=True, **more)
    return [to_float64(one) for one in found]


@keras.saving.register_keras_serializable("tests")
class Fragile(keras.layers.Layer):
    """As recurrent layers on cuDNN: breaks at a row with nothing to keep. Else it passes on what it gets."""

    def call(self, inputs, mask=None):
        if mask is None:
            return inputs
        keeps = ops.any(mask, axis=-1)[:, None, None]
        return ops.where(keeps, inputs, ops.full_like(inputs, float("nan")))


@keras.saving.register_keras_serializable("tests")
class Unbuilt(keras.layers.Layer):
    """A layer of a user who says nothing of shapes: its parts are built when it is called."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(7, activation="tanh")

    def build(self, input_shape):
        self.inner.build(input_shape)

    def call(self, inputs):
        return ops.concatenate([self.inner(inputs), inputs[..., :2]], axis=-1)


def functional():
    inputs = keras.Input((None, DIM))
    return keras.Model(inputs, keras.layers.Dense(7)(recurrent()(inputs)))


ENCODERS = {
    "recurrent": recurrent,
    "sequential": lambda: keras.Sequential([recurrent(), keras.layers.Dense(7)]),
    "functional": functional,
    "of the user's own": Unbuilt,
    "convolution": lambda: keras.layers.Conv1D(7, 3, padding="same"),
}
each_encoder = pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS.keys())


def test_without_encoders_it_is_two_poolings():
    layer = built()
    context, of_words, of_sentences = read(layer)
    vectors = []
    for b, s in np.ndindex(3, 3):
        alone, weights = layer.word_pooling(DOCUMENTS[b, s][None], mask=MASK[b, s][None], return_attention_scores=True)
        np.testing.assert_allclose(of_words[b, s], to_float64(weights)[0], atol=1e-6)
        vectors.append(to_float64(alone)[0])
    vectors = np.reshape(vectors, (3, 3, DIM)).astype("float32")
    expected = layer.sentence_pooling(vectors, mask=MASK.any(-1), return_attention_scores=True)
    for got, one in zip((context, of_sentences), expected, strict=True):
        np.testing.assert_allclose(got, to_float64(one), atol=1e-6)
    np.testing.assert_array_equal(to_float64(layer(DOCUMENTS, mask=MASK)), context)


def test_padded_sentences_have_no_weight_and_all_others_have():
    _, of_words, of_sentences = read(built(word_encoder=recurrent(), sentence_encoder=recurrent()))
    assert ((of_words > 0) == MASK).all() and ((of_sentences > 0) == MASK.any(-1)).all()
    np.testing.assert_allclose(of_words.sum(-1), MASK.any(-1), atol=1e-6)
    np.testing.assert_allclose(of_sentences.sum(-1), 1, atol=1e-6)


def test_a_document_without_words_is_0():
    mask = MASK.copy()
    mask[1] = False
    for one in read(built(word_encoder=recurrent(), sentence_encoder=recurrent()), mask=mask):
        assert (one[1] == 0).all() and (one[0] != 0).any()


def test_no_encoder_sees_a_row_with_nothing_to_keep():
    layer, plain = built(word_encoder=Fragile(), sentence_encoder=Fragile()), built()
    mask = MASK.copy()
    mask[1] = False  # a whole document, too
    for got, expected in zip(read(layer, mask=mask), read(plain, mask=mask), strict=True):
        np.testing.assert_array_equal(got, expected)
    (found,), of_weights = gradients(
        lambda one: ops.sum(ops.square(layer(one, mask=mask))), [DOCUMENTS], layer.trainable_variables
    )
    assert (found[~mask] == 0).all() and all(np.isfinite(one).all() for one in (found, *of_weights))


@each_encoder
def test_more_padding_of_words_or_sentences_changes_nothing(encoder):
    layer = built(word_encoder=encoder(), sentence_encoder=recurrent())
    widths = ((0, 0), (0, 2), (0, 4))
    documents = np.pad(DOCUMENTS, (*widths, (0, 0)), constant_values=7.0)
    longer, short = read(layer, documents, np.pad(MASK, widths)), read(layer)
    np.testing.assert_allclose(longer[0], short[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(longer[1][:, :3, :5], short[1], atol=1e-6)
    np.testing.assert_allclose(longer[2][:, :3], short[2], atol=1e-6)
    assert longer[1].sum() == pytest.approx(short[1].sum()) and longer[2].sum() == pytest.approx(short[2].sum())


@each_encoder
def test_padding_reaches_no_gradient(encoder):
    layer = built(word_encoder=encoder(), sentence_encoder=recurrent())
    widths = ((0, 0), (0, 2), (0, 4))

    def of(documents, mask):
        (found,), of_weights = gradients(
            lambda one: ops.sum(ops.square(layer(one, mask=mask))), [documents], layer.trainable_variables
        )
        return found, of_weights

    short, of_weights = of(DOCUMENTS, MASK)
    padded = np.pad(DOCUMENTS, (*widths, (0, 0)), constant_values=7.0)
    long, of_padded_weights = of(padded, np.pad(MASK, widths))
    assert (short[~MASK] == 0).all() and (short[MASK] != 0).any()
    assert (long[~np.pad(MASK, widths)] == 0).all()
    np.testing.assert_allclose(long[:, :3, :5], short, rtol=1e-4, atol=1e-6)
    for got, expected in zip(of_padded_weights, of_weights, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@one_backend
@each_encoder
def test_any_encoder_is_saved_with_the_layer(encoder, tmp_path):
    documents, mask = keras.Input((None, None, DIM)), keras.Input((None, None), dtype="bool")
    layer = HierarchicalAttention(
        word_encoder=encoder(), word_pooling=GatedPooling(UNITS), sentence_pooling=MeanPooling()
    )
    outputs = layer(documents, mask=mask, return_attention_scores=True)
    width = 9 if encoder is Unbuilt else 8 if encoder is recurrent else 7
    assert [one.shape for one in outputs] == [(None, width), (None, None, None), (None, None)]
    model = keras.Model([documents, mask], outputs)
    give_values(model, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for got, expected in zip(loaded([DOCUMENTS, MASK]), model([DOCUMENTS, MASK]), strict=True):
        np.testing.assert_array_equal(to_float64(got), to_float64(expected))


def test_poolings_are_exchangeable():
    layer = built(word_pooling=MaxPooling(), sentence_pooling=AttentivePooling(None))
    context, of_words, _ = read(layer)
    assert context.shape == (3, DIM)
    highest = np.where(MASK[0, 0][:, None], DOCUMENTS[0, 0], -np.inf).argmax(0)
    np.testing.assert_allclose(of_words[0, 0], np.bincount(highest, minlength=5) / DIM, atol=1e-6)


def test_masks_of_embeddings_arrive_and_end_here():
    ids = np.where(MASK, np.random.default_rng(1).integers(1, 11, MASK.shape), 0)
    embed, layer = keras.layers.Embedding(11, DIM, mask_zero=True), built(word_encoder=recurrent())
    for got, expected in zip(read(layer, embed(ids), None), read(layer, embed(ids)), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert layer.compute_mask(DOCUMENTS, MASK) is None


def test_without_a_mask_every_word_counts():
    layer = built(word_encoder=recurrent(), sentence_encoder=recurrent())
    for got, expected in zip(read(layer, mask=None), read(layer, mask=np.ones_like(MASK)), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_training_reaches_encoders_and_poolings():
    for options in (
        {"word_encoder": keras.layers.Dropout(0.5, seed=1)},
        {"word_pooling": AttentivePooling(UNITS, dropout=0.5, seed=1), "sentence_pooling": MeanPooling()},
    ):
        layer = built(**options)
        still, moving = to_float64(layer(DOCUMENTS)), to_float64(layer(DOCUMENTS, training=True))
        assert not np.allclose(still, moving, atol=1e-3)


def test_half_precision_of_the_layer_is_that_of_what_it_makes():
    layer = built(dtype="mixed_bfloat16")
    assert layer.word_pooling.compute_dtype == layer.sentence_pooling.compute_dtype == "bfloat16"
    found = layer(DOCUMENTS, mask=MASK, return_attention_scores=True)
    assert [keras.backend.standardize_dtype(one.dtype) for one in found] == ["bfloat16", "float32", "float32"]


@one_backend
def test_a_word_that_decides_is_found():
    """One word of a document has a mark in its first channel, and the answer in its second."""
    rng = np.random.default_rng(5)
    documents = rng.normal(size=(192, 3, 4, DIM)).astype("float32")
    lengths = rng.integers(1, 5, (192, 3)) * (np.arange(3) < rng.integers(1, 4, (192, 1)))
    mask = np.arange(4) < lengths[..., None]
    documents[..., 0] = -2
    places = np.array([rng.choice(np.flatnonzero(one)) for one in mask.reshape(192, -1)])
    flat = documents.reshape(192, 12, DIM)
    flat[np.arange(192), places, 0] = 2
    answer = flat[np.arange(192), places, 1]

    inputs, masks = keras.Input((None, None, DIM)), keras.Input((None, None), dtype="bool")
    context, of_words, of_sentences = HierarchicalAttention(UNITS)(inputs, mask=masks, return_attention_scores=True)
    model = keras.Model([inputs, masks], keras.layers.Dense(1)(context))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    model.fit([documents, mask], answer, epochs=30, batch_size=48, verbose=0)
    of_words, of_sentences = (
        to_float64(one) for one in keras.Model([inputs, masks], [of_words, of_sentences])([documents, mask])
    )
    found = (of_words * of_sentences[..., None]).reshape(192, -1).argmax(-1)
    assert (found == places).mean() > 0.8


def test_a_model_of_ids_with_recurrent_encoders_trains():
    ids = np.where(MASK, np.random.default_rng(1).integers(1, 11, MASK.shape), 0)
    inputs = keras.Input((None, None), dtype="int32")
    layer = HierarchicalAttention(UNITS, word_encoder=recurrent(), sentence_encoder=recurrent())
    read_documents = layer(keras.layers.Embedding(11, DIM, mask_zero=True)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(read_documents))
    before = [to_float64(one.value) for one in layer.trainable_weights]
    model.compile("sgd", "mse")
    history = model.fit(ids, np.ones((3, 1)), epochs=2, batch_size=3, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    for old, new in zip(before, layer.trainable_weights, strict=True):
        assert not np.array_equal(old, to_float64(new.value)), new.path


def test_config_holds_what_was_given():
    layer = HierarchicalAttention(UNITS, word_encoder=recurrent("words"), word_pooling=MeanPooling(), name="reads")
    config = json.loads(json.dumps(layer.get_config()))
    assert (
        config.items() >= {"units": UNITS, "sentence_encoder": None, "sentence_pooling": None, "name": "reads"}.items()
    )
    twin = HierarchicalAttention.from_config(config)
    assert json.loads(json.dumps(twin.get_config())) == config
    assert twin.word_encoder.name == "words" and isinstance(twin.word_pooling, MeanPooling)
    assert isinstance(twin.sentence_pooling, AttentivePooling) and twin.sentence_pooling.units == UNITS
    assert twin.compute_output_shape((4, 3, 5, DIM)) == (4, 8)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, r"`units` is the width.*`word_pooling` must be given.*Pass `units`, or"),
        ({"word_pooling": MeanPooling()}, ValueError, r"`sentence_pooling` must be given"),
        ({"units": 0}, ValueError, r"`units` must be an int > 0\. Received 0"),
        (
            {"units": 8, "word_pooling": MeanPooling(), "sentence_pooling": MaxPooling()},
            ValueError,
            r"Both poolings are given.*units=8\. Leave it out",
        ),
        ({"units": 8, "word_encoder": "gru"}, TypeError, r"`word_encoder` must be a Keras layer or model.*'gru'"),
        ({"units": 8, "word_pooling": "mean"}, TypeError, r"`word_pooling` must be a .*SequencePooling.*'mean'"),
        (
            {"units": 8, "sentence_pooling": keras.layers.GlobalMaxPooling1D()},
            TypeError,
            r"`sentence_pooling` must be a .*such as MeanPooling\(\)",
        ),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        HierarchicalAttention(**options)


def test_one_pooling_for_both_is_refused():
    pooling = MeanPooling()
    with pytest.raises(ValueError, match=r"two poolings must be two layers.*Make another"):
        HierarchicalAttention(word_pooling=pooling, sentence_pooling=pooling)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda layer: layer(DOCUMENTS[0]), ValueError, r"documents must be of rank 4, \(B, S, W, D\).*\(3, 5, 6\)"),
        (
            lambda layer: layer(DOCUMENTS, mask=MASK.astype("int32")),
            TypeError,
            r"mask must be bool, True = keep\. Received int32",
        ),
        (
            lambda layer: layer(DOCUMENTS, mask=MASK.any(-1)),
            ValueError,
            r"mask must be \(B, S, W\), here \(3, 3, 5\)\. Received \(3, 3\)",
        ),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    for layer in (HierarchicalAttention(UNITS), built()):
        with pytest.raises(error, match=f"(?s){message}"):
            call(layer)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (lambda: keras.layers.GRU(4, name="last"), r"'last' must give one tensor.*\(None, 4\).*return_sequences=True"),
        (
            lambda: keras.layers.GRU(4, return_sequences=True, return_state=True),
            r"Received a (tuple|list).*return_state",
        ),
        (lambda: keras.layers.Conv1D(4, 3), r"here \(None, 5, 6\)\. Received \(None, 3, 4\).*padding='same'"),
    ],
)
def test_an_encoder_that_does_not_keep_the_length_is_refused(encoder, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        HierarchicalAttention(UNITS, word_encoder=encoder())(DOCUMENTS)


def test_a_length_that_is_known_late_is_still_checked():
    layer = built(word_encoder=keras.layers.Conv1D(4, 3, name="shortens"))
    with pytest.raises(ValueError, match=r"'shortens' must give.*here \(9, 5, 6\)\. Received \(9, 3, 4\)"):
        layer(DOCUMENTS)


def test_the_example_of_the_docstring_runs():
    def encode():
        return keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))

    layer = HierarchicalAttention(16, word_encoder=encode(), sentence_encoder=encode())
    words = keras.layers.Embedding(100, 6, mask_zero=True)(ops.ones((2, 3, 5), "int32"))
    found = [one.shape for one in layer(words, return_attention_scores=True)]
    assert found == [(2, 8), (2, 3, 5), (2, 3)]

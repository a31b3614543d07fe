"""Embeddings of translation models: trained, frozen, one-hot, and started from vectors that were learnt elsewhere."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import zoo
from keras_attention.models import TransformerConfig, TranslationConfig, TranslationModel, preset
from keras_attention.models.embeddings import OneHotEmbedding
from keras_attention.text import WordVectors
from keras_attention.training import Recipe, session
from tests.models.test_translation import BATCH, SENTENCES
from tests.models.test_word_translation import RECURRENT, word_model
from tests.tiny import PAIRS, make_model

ONE_HOT = {"source_embeddings": "one_hot", "target_embeddings": "one_hot", "tie_embeddings": "none"}
WIDTH = RECURRENT["embedding_dim"]


def some_vectors(words, width=WIDTH):
    return WordVectors(tuple(words), np.random.default_rng(4).normal(size=(len(words), width)).astype(np.float32))


def gradients_of(model):
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(BATCH, training=True)
    return tape.gradient(loss, [one.value for one in model.trainable_weights])


@pytest.mark.parametrize("order", ["luong", "bahdanau", "conditional"])
def test_one_hot_ids_give_what_an_identity_matrix_gives(order):
    one_hot = make_model(order=order, **ONE_HOT)
    trained = make_model(order=order, tie_embeddings="none", embedding_dim=160)
    values = {weight.path: weight.numpy() for weight in one_hot.weights}
    for weight in trained.weights:
        own = weight.path.endswith("_embedding/embeddings")
        weight.assign(np.eye(160) / np.sqrt(160) if own else values[weight.path])
    np.testing.assert_allclose(one_hot(BATCH), trained(BATCH), atol=1e-5)
    assert one_hot.translate(SENTENCES[0]).output == trained.translate(SENTENCES[0]).output
    assert len(one_hot.weights) == len(trained.weights) - 2


@pytest.mark.parametrize("settings", [{}, {"attention": "none"}, {"attention": "none", "wiring": "states_context"}])
def test_every_weight_behind_one_hot_ids_learns(settings):
    model = make_model(**ONE_HOT, **settings)
    for weight, gradient in zip(model.trainable_weights, gradients_of(model), strict=True):
        assert gradient is not None and np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path


def test_one_hot_vectors_of_half_precision():
    layer = OneHotEmbedding(4, dtype="mixed_bfloat16")
    found = layer(tf.constant([[2, 0]]))
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(tf.cast(found, tf.float32), [[[0, 0, 1, 0], [1, 0, 0, 0]]])


@pytest.mark.parametrize("tie", ["none", "output", "all"])
def test_frozen_embeddings_are_weights_that_do_not_learn(tie):
    both = {"source_embeddings": "frozen", "target_embeddings": "frozen"} if tie == "all" else {}
    model = make_model(tie_embeddings=tie, **(both or {"source_embeddings": "frozen"}))
    frozen = [weight.path for weight in model.non_trainable_weights]
    side = "target" if tie == "all" else "source"
    assert frozen == [f"{side}_embedding/embeddings"]
    before = model.source_embedding.embeddings.numpy()
    model.compile(keras.optimizers.SGD(0.1))
    model.fit(tf.data.Dataset.from_tensors(BATCH), shuffle=False, verbose=0)
    np.testing.assert_array_equal(model.source_embedding.embeddings, before)


def test_a_model_of_frozen_and_one_hot_embeddings_comes_back(tmp_path):
    for number, settings in enumerate(({"source_embeddings": "frozen", "tie_embeddings": "output"}, ONE_HOT)):
        model = make_model(**settings)
        copy = preset.load(preset.save(model, tmp_path / f"{number}"))
        assert len(copy.non_trainable_weights) == len(model.non_trainable_weights) == 1 - number
        np.testing.assert_array_equal(copy(BATCH), model(BATCH))


def test_words_start_from_their_vectors():
    model = word_model(tie_embeddings="output")
    start = model.source_embedding.embeddings.numpy()
    target = model.target_embedding.embeddings.numpy()
    vectors = some_vectors(["zebra", "library", "the", "<unk>", "<pad>"])
    assert model.set_word_vectors(vectors) == 2
    (the, library), unseen = model.tokenizer.encode("the library"), model.tokenizer.encode("is")[0]
    found = model.embed(model.source_embedding, tf.constant([the, library, unseen]))
    np.testing.assert_allclose(found[0], vectors.vectors[2], rtol=1e-5)
    np.testing.assert_allclose(found[1], vectors.vectors[1], rtol=1e-5)
    others = np.setdiff1d(np.arange(len(start)), [the, library])
    np.testing.assert_allclose(model.source_embedding.embeddings.numpy()[others], start[others], rtol=1e-5)
    np.testing.assert_array_equal(model.target_embedding.embeddings, target)
    assert model.set_word_vectors(vectors, side="target") == 2


def test_pieces_that_begin_a_word_start_from_its_vector():
    model = make_model()
    pieces = model.tokenizer.tokens(range(160))
    beginning = [piece.lower() for piece in pieces if piece[0] == "\u2581"]
    whole = next(piece for piece in pieces[4:] if len(piece) > 2 and piece in beginning)
    inner = next(piece for piece in pieces[4:] if piece[0] != "\u2581" and "\u2581" + piece.lower() not in beginning)
    vectors = some_vectors([whole[1:], inner], 12)
    assert model.set_word_vectors(vectors) == beginning.count(whole)
    found = model.embed(model.target_embedding, tf.constant([pieces.index(whole)]))
    np.testing.assert_allclose(found[0], vectors.vectors[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "side", "message"),
    [
        (lambda: word_model(), "left", "`side` must be 'source' or 'target'. Received 'left'"),
        (lambda: word_model(**ONE_HOT), "source", "no matrix of these embeddings"),
        (lambda: word_model(embedding_dim=8), "source", "The vectors have 6 numbers.*embedding_dim=8. They must agree"),
        (lambda: TranslationModel(word_model().config), "source", "The model has no tokenizer"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(make, side, message):
    with pytest.raises(ValueError, match=message):
        make().set_word_vectors(some_vectors(["the"]), side)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_embeddings": "one_hot"}, "`target_embeddings` is 'one_hot', which has no matrix.*'all' could share"),
        (
            {"target_embeddings": "one_hot", "tie_embeddings": "output"},
            "which has no matrix that.*'output' could share",
        ),
        ({"source_embeddings": "one_hot"}, "'all', so both embeddings are one matrix. Received .*'one_hot'"),
        ({"source_embeddings": "frozen"}, "'all', so both embeddings are one matrix. Received .*'frozen'"),
        ({"source_embeddings": "glove"}, "`source_embeddings` must be one of 'trained', 'frozen', 'one_hot'"),
    ],
)
def test_embeddings_that_contradict_each_other_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        TranslationConfig.from_dict({"vocabulary_size": 50, "embedding_dim": 4, "units": 8, **change})


def test_a_transformer_has_no_one_hot_embeddings():
    settings = {"vocabulary_size": 50, "embedding_dim": 4, "feed_forward_units": 4, "num_heads": 2, "num_layers": 1}
    with pytest.raises(ValueError, match="`source_embeddings` must be one of 'trained', 'frozen'"):
        TransformerConfig.from_dict({**settings, "source_embeddings": "one_hot"})


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": one, "target": two}) + "\n" for one, two in PAIRS), "utf-8")
    return [path]


def recipe(tmp_path, vectors, **model):
    path = tmp_path / "vectors.txt"
    rows = zip(vectors.words, vectors.vectors, strict=True)
    path.write_text("".join(f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in rows), "utf-8")
    values = {
        "version": 1,
        "family": "translation",
        "model": {**RECURRENT, "tie_embeddings": "output", **model},
        "tokenizer": {"kind": "word", "options": {"min_count": 2}},
        "data": {"vectors": {"source": str(path)}},
        "training": {"steps": 2, "batch_size": 8},
    }
    return Recipe.from_dict(values)


def test_a_recipe_names_the_file_and_its_preset_does_without(files, tmp_path, caplog):
    vectors = some_vectors(["the", "library", "zebra"])
    wanted = recipe(tmp_path, vectors, source_embeddings="frozen")
    session.train(wanted, tmp_path / "run", files, files)
    assert any("2 of" in one.getMessage() and "vectors.txt" in one.getMessage() for one in caplog.records)
    (tmp_path / "vectors.txt").unlink()
    model = zoo.load(tmp_path / "run")
    (the,) = model.tokenizer.encode("the")
    found = model.embed(model.source_embedding, tf.constant([the]))[0]
    np.testing.assert_allclose(found, vectors.vectors[0], rtol=2e-3)  # kept as float16
    assert model.metadata["recipe"]["data"]["vectors"] == {"source": "vectors.txt"}


def test_vectors_of_another_width_or_language_stop_a_training(files, tmp_path):
    with pytest.raises(ValueError, match=r"vectors\.txt:1: expected a word and 6 numbers"):
        session.train(recipe(tmp_path, some_vectors(["the"], 5)), tmp_path / "run", files, files)
    with pytest.raises(ValueError, match=r"None of the \d+ words of the vocabulary is in .*vectors\.txt"):
        session.train(recipe(tmp_path, some_vectors(["zebra"])), tmp_path / "run", files, files)
    with pytest.raises(ValueError, match="`data.vectors` is {'left': 3}. Expected the path of a file under each name"):
        Recipe.from_dict({"version": 1, "family": "translation", "data": {"vectors": {"left": 3}}})

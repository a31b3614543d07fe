from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention import export, zoo
from keras_attention.export import runner
from keras_attention.models import ClozeModel
from keras_attention.training import Recipe, evaluate, session
from keras_attention.training.readers import DataError

EXAMPLES = [
    {
        "document": "Tom had a dog . Ann had a cat . The cat slept .",
        "query": "The XXXXX of Ann slept .",
        "candidates": "dog|cat|Tom",
        "answer": "cat",
    },
    {
        "document": "Zorro met Blurb .",
        "query": "XXXXX met him .",
        "candidates": "Blurb|Zorro",
        "answer": "Zorro",
    },
    {
        "document": "A dog -- a big one -- ran .",
        "query": "A big ___ ran !",
        "candidates": "dog|one",
        "answer": "dog",
    },
]
KNOWN = [EXAMPLES[0], {**EXAMPLES[2], "query": "A big XXXXX ran"}]  # without Zorro and Blurb
WORDS = ClozeModel.learn_tokenizer(KNOWN, "word", 100)
INPUTS = [{name: one[name] for name in ("document", "query", "candidates")} for one in EXAMPLES]
KINDS = [("over_attention", "gru"), ("sum", "gru"), ("over_attention", "lstm")]


def make_model(attention="over_attention", cell="gru", seed=3, tokenizer=WORDS, **config):
    """A model whose every weight is different, and exact in half precision."""
    config = {"embedding_dim": 5, "units": 6, "unknown_rows": 3, "max_length": 40, "cell": cell, **config}
    model = ClozeModel({"vocabulary_size": WORDS.vocabulary_size, "attention": attention, **config}, tokenizer)
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(generator.normal(0, 0.6, weight.shape).astype(np.float16).astype(np.float32))
    return model


def batch(model, examples, extra=0):
    rows = [model.vectorize(one) for one in examples]
    widths = {name: max(len(row[name]) for row in rows) + extra * (name != "answer") for name in rows[0]}
    return {
        name: tf.constant([[*row[name], *[0] * (width - len(row[name]))] for row in rows], tf.int32)
        for name, width in widths.items()
    }


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def gru(layer, inputs, backwards):
    """One direction, as Cho et al., 2014, with the reset after the matrix: (T, E) → (T, U)."""
    kernel, recurrent, bias = (np.asarray(one, np.float64) for one in layer.cell.weights)
    size = recurrent.shape[0]
    state, found = np.zeros(size), np.zeros((len(inputs), size))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for place in reversed(range(len(inputs))) if backwards else range(len(inputs)):
        x, h = inputs[place] @ kernel + bias[0], state @ recurrent + bias[1]
        z = sigmoid(x[:size] + h[:size])
        r = sigmoid(x[size : 2 * size] + h[size : 2 * size])
        state = z * state + (1 - z) * np.tanh(x[2 * size :] + r * h[2 * size :])
        found[place] = state
    return found


def by_hand(model, ids):
    """Cui et al., 2017, section 3, or Kadlec et al., 2016, for one example in float64: P of candidates, s, α, β."""
    size, rows = model.config.vocabulary_size, model.config.unknown_rows
    known, unknown = (
        np.asarray(model.embedding.embeddings, np.float64),
        np.asarray(model.unknown.embeddings, np.float64),
    )
    states, ends = {}, {}
    for name in ("document", "query"):
        embedded = np.array([known[one] if one < size else unknown[(one - size) % rows] for one in ids[name]])
        (both,) = model.encoders[name].layers
        forward, backward = gru(both.forward_layer, embedded, False), gru(both.backward_layer, embedded, True)
        states[name] = np.concatenate([forward, backward], axis=1)
        ends[name] = np.concatenate([forward[-1], backward[0]])
    if model.config.attention == "sum":
        weights, alpha, beta = softmax(states["document"] @ ends["query"]), None, None
    else:
        scores = states["document"] @ states["query"].T  # M (Td, Tq)
        alpha, beta = softmax(scores.T), softmax(scores).mean(axis=0)
        weights = beta @ alpha
    probability = [
        sum(weights[i] for i, word in enumerate(ids["document"]) if word == one) for one in ids["candidates"]
    ]
    return np.array(probability), weights, alpha, beta


@pytest.mark.parametrize("attention", ["over_attention", "sum"])
def test_the_network_is_that_of_the_paper(attention):
    model = make_model(attention)
    for example in EXAMPLES:
        ids = model.vectorize(example)
        probability, weights, alpha, beta = by_hand(model, ids)
        logits, seen = model.look(batch(model, [example]))
        np.testing.assert_allclose(np.exp(np.asarray(logits[0], np.float64)), probability, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(seen["document"][0], weights, rtol=1e-4, atol=1e-6)
        if attention == "over_attention":
            np.testing.assert_allclose(seen["query_words"][0], alpha, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(seen["query"][0], beta, rtol=1e-4, atol=1e-6)
        loss, count = model.loss_terms(batch(model, [example]), training=False)
        answer = example["candidates"].split("|").index(example["answer"])
        assert (float(loss), float(count)) == (pytest.approx(-np.log(probability[answer]), rel=1e-4), 1)


@pytest.mark.parametrize(("attention", "cell"), KINDS)
def test_padding_changes_nothing_and_a_batch_gives_what_its_rows_give(attention, cell):
    model = make_model(attention, cell)
    together = model.look(batch(model, EXAMPLES))[0]
    padded = model.look(batch(model, EXAMPLES, extra=7))[0]
    np.testing.assert_allclose(padded[:, : together.shape[1]], together, rtol=1e-4, atol=1e-4)
    assert (np.asarray(tf.nn.softmax(padded))[:, together.shape[1] :] == 0).all()
    for example, wanted in zip(EXAMPLES, together, strict=True):
        own = model(batch(model, [example]))[0]
        np.testing.assert_allclose(own, wanted[: own.shape[0]], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("attention", "cell"), KINDS)
def test_every_weight_learns_and_a_row_of_padding_gives_nothing(attention, cell):
    model = make_model(attention, cell)
    plain = batch(model, EXAMPLES)
    nothing = {name: tf.concat([one, tf.zeros_like(one[:1])], axis=0) for name, one in plain.items()}
    variables = [one.value for one in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, count = model.loss_terms(nothing, training=True)
    assert float(count) == 3
    np.testing.assert_allclose(loss, model.loss_terms(plain, training=True)[0], rtol=1e-5)
    for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, variables), strict=True):
        gradient = np.asarray(tf.convert_to_tensor(gradient))
        assert np.isfinite(gradient).all() and np.abs(gradient).sum() > 0, weight.path


@pytest.mark.parametrize("attention", ["over_attention", "sum"])
def test_an_answer_its_share_and_what_was_looked_at(attention):
    model = make_model(attention)
    for one, example in zip(model.answer(INPUTS, n_best=9), INPUTS, strict=True):
        probability, weights, alpha, beta = by_hand(model, model.vectorize(example))
        names = example["candidates"].split("|")
        shares = probability / probability.sum()
        assert one.output == names[int(probability.argmax())]
        assert one.score == pytest.approx(shares.max(), rel=1e-4)
        np.testing.assert_allclose([one.extra["probabilities"][name] for name in names], shares, rtol=1e-3)
        assert len(one.alternatives) == len(names) - 1
        seen = {each.name: each for each in one.attention}
        np.testing.assert_allclose(seen["document"].weights[0], weights, rtol=1e-4, atol=1e-6)
        if attention == "over_attention":
            np.testing.assert_allclose(seen["query_words"].weights, alpha, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(seen["query"].weights[0], beta, rtol=1e-4, atol=1e-6)
            assert list(seen["query_words"].rows) == list(seen["query"].columns)
    assert "zorro" in model.answer(INPUTS[1]).attention[0].columns
    assert model.answer(INPUTS[0], attention=False).attention == []


def test_names_that_training_never_saw_are_told_apart():
    model = make_model()
    ids = model.vectorize(EXAMPLES[1])
    zorro, met, blurb, _ = ids["document"]
    size = WORDS.vocabulary_size
    assert min(zorro, blurb) >= size
    assert met >= size  # unknown too
    assert ids["candidates"] == [blurb, zorro]
    assert len({zorro, met, blurb}) == 3
    assert ids["query"][0] == WORDS.encode("XXXXX")[0]


def test_columns_may_be_given_one_by_one():
    model = make_model()
    found = model.answer("Tom had a dog. Ann had a cat. The cat slept.", "The ___ of Ann slept.", ["dog", "cat", "Tom"])
    assert found.to_dict() == model.answer(INPUTS[0]).to_dict()


@pytest.mark.parametrize(("attention", "cell"), KINDS)
def test_it_comes_back_from_its_preset_and_from_a_keras_file(attention, cell, tmp_path):
    model = make_model(attention, cell)
    wanted = [one.to_dict() for one in model.answer(INPUTS)]
    copy = zoo.load(zoo.save(model, tmp_path / "preset"))
    assert copy.config == model.config
    assert [one.to_dict() for one in copy.answer(INPUTS)] == wanted
    model.save(tmp_path / "model.keras")
    assert [one.to_dict() for one in keras.saving.load_model(tmp_path / "model.keras").answer(INPUTS)] == wanted


@pytest.mark.parametrize("attention", ["over_attention", "sum"])
def test_a_tflite_file_says_what_the_model_says(attention, tmp_path):
    model = make_model(attention)
    report = export.to_tflite(model, tmp_path / "model.tflite")
    assert report.checks["equal_outputs"] == 1
    run = runner.tflite_runner(report.path, "ids")
    for example in INPUTS:
        ids = {name: np.array([row], np.int32) for name, row in model.vectorize(example).items()}
        logits, weights = model.look(ids)
        found = run(**ids)
        np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(logits), atol=1e-5)
        for name, one in weights.items():
            np.testing.assert_allclose(found[f"attention_{name}"], one, atol=1e-5)
        assert example["candidates"].split("|")[found["label"][0]] == model.answer(example).output


def test_a_saved_model_reads_text(tmp_path):
    model = make_model()
    report = export.to_saved_model(model, tmp_path / "saved")
    assert report.checks["text"]["equal_outputs"] == 1
    columns = {name: np.array([one[name].encode() for one in INPUTS]) for name in INPUTS[0]}
    found = runner.run_saved_model(str(report.path), "text", {"one": columns})["one"]
    wanted = model.answer(INPUTS)
    assert [one.decode() for one in found["text"]] == [one.output for one in wanted]
    for row, one in zip(found["probabilities"], wanted, strict=True):
        shares = [*one.extra["probabilities"].values()]
        np.testing.assert_allclose(row[: len(shares)], shares, atol=1e-6)


TEXT = st.text(st.sampled_from("Tom dog.-X_ \n\u2019") | st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=3))
def test_the_graph_reads_the_words_that_python_reads(texts):
    model = make_model()
    rows = model._graph_ids(tf.constant(texts)).numpy().tolist()
    assert [[index for index in row if index] for row in rows] == [model.ids_of(text) for text in texts]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"document": " "}, ValueError, "The document is empty"),
        ({"query": "Ann slept ."}, ValueError, "The query has no gap. Write XXXXX or ___"),
        ({"candidates": "cat"}, ValueError, "at least two candidates, each once.*Received 'cat'"),
        ({"candidates": "cat|cat"}, ValueError, "at least two candidates, each once"),
        ({"candidates": ["cat", ""]}, ValueError, "at least two candidates, each once"),
        ({"candidates": "cat|big dog"}, ValueError, "The candidate 'big dog' has 2 words. Expected one word"),
        ({"candidates": "lion|tiger"}, ValueError, "None of the candidates lion, tiger is in the document"),
        ({"document": "dog " * 41}, ValueError, "The document has 41 words; the model reads at most 40"),
        ({"query": 3}, TypeError, "`answer` wants text, or a dict with text under document, query, candidates"),
    ],
)
def test_what_cannot_be_answered_is_told(change, error, message):
    with pytest.raises(error, match=message):
        make_model().answer({**INPUTS[0], **change})


def test_answers_that_make_no_sense_are_told():
    model = make_model()
    with pytest.raises(ValueError, match="The answer 'house' is none of the candidates dog, cat, Tom"):
        model.vectorize({**EXAMPLES[0], "answer": "house"})
    with pytest.raises(ValueError, match="The answer 'house' is not in the document"):
        model.vectorize({**EXAMPLES[0], "candidates": "house|dog", "answer": "house"})
    with pytest.raises(ValueError, match="The model has no tokenizer, so it cannot read text"):
        make_model(tokenizer=None).answer(INPUTS[0])
    assert model.answer("x" * 5000 + " met a dog.", "A XXXXX.", ["x" * 5000, "dog"]).output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "max"}, "`attention` must be one of 'over_attention', 'sum'. Received 'max'"),
        ({"units": 7}, "`units` must be even"),
        ({"cell": "rnn"}, "`cell` must be one of 'gru', 'lstm'"),
        ({"unknown_rows": 0}, "`unknown_rows` must be an int >= 1"),
        ({"temperature": -1}, "`temperature` must be a finite number above 0"),
        ({"unit": 7}, "Unknown key 'unit' in ClozeConfig.*Did you mean 'units'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ClozeModel({"vocabulary_size": 30, **change})


def write(path, examples):
    path.write_text("".join(json.dumps(one) + "\n" for one in examples), "utf-8")
    return path


def recipe(*changes):
    values = {
        "version": 1,
        "family": "cloze",
        "model": {"embedding_dim": 8, "units": 12},
        "tokenizer": {"kind": "word", "vocabulary_size": 100},
        "data": {"columns": ["document", "query", "candidates", "answer", "kind"]},
        "optimizer": {"learning_rate": 0.03},
        "training": {"seed": 1, "steps": 30, "batch_size": 8, "validate_every": 15},
        "evaluation": {"samples": 1, "metrics": ["accuracy"]},
    }
    return Recipe.from_dict(values).override(changes)


def owners(pets):
    """Who has which pet: the query names the owner."""
    people = ("Ann", "Tom", "Bob")
    for first in people:
        for second in people:
            for one in pets:
                for other in pets:
                    if first != second and one != other:
                        yield {
                            "document": f"{first} had a {one} . {second} had a {other} .",
                            "query": f"The XXXXX of {second} slept .",
                            "candidates": f"{one}|{other}",
                            "answer": other,
                            "kind": "common_noun",
                        }


@pytest.mark.parametrize("attention", ["over_attention", "sum"])
def test_a_training_learns_whose_pet_it_is_and_meets_new_words(attention, tmp_path):
    data = write(tmp_path / "data.jsonl", [*owners(("dog", "cat", "cow"))])
    other = [*owners(("zebra", "yak"))]
    done = session.train(recipe(f"model.attention={attention}"), tmp_path / "run", [data], [data])
    assert (done.metric, done.best_metric) == ("loss", pytest.approx(0, abs=0.05))
    model = zoo.load(tmp_path / "run")
    assert model.metadata["scores"]["validation"]["accuracy"] == 100
    scores = evaluate(model, other)
    assert scores["examples"] == len(other)
    assert attention == "sum" or scores["accuracy_common_noun"] > 70  # by chance 50


def test_a_bad_line_is_named(tmp_path):
    good = [*owners(("dog", "cat"))]
    data = write(tmp_path / "data.jsonl", [*good, {**good[0], "answer": "cow"}])
    with pytest.raises(DataError, match=r"data.jsonl:13: The model refuses this: The answer 'cow' is none of the cand"):
        session.train(recipe(), tmp_path / "run", [data], [data])

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import export, zoo
from keras_attention.models import EntailmentConfig, EntailmentModel, preset
from keras_attention.text import WordTokenizer, WordVectors
from keras_attention.training import Recipe, evaluate, session

LABELS = ["contradiction", "entailment", "neutral"]
PAIRS = [
    ("Two women are hugging.", "Two women aren't hugging.", "contradiction"),
    ("A man is playing a guitar on the street.", "A man is playing.", "entailment"),
    ("A dog runs.", "A black dog runs through the snow.", "neutral"),
    ("Nobody is in the house.", "A man is in the house.", "contradiction"),
]
EXAMPLES = [dict(zip(EntailmentModel.columns, pair, strict=True)) for pair in PAIRS]
INPUTS = [{"premise": one, "hypothesis": other} for one, other, _ in PAIRS]
METHODS = ("decomposable", "word_by_word", "bag")
VARIANTS = [{"method": method} for method in METHODS] + [{"method": "decomposable", "interaction": True}]
each_variant = pytest.mark.parametrize("settings", VARIANTS, ids=lambda one: "-".join(map(str, one.values())))


def make_model(**settings):
    tokenizer = EntailmentModel.learn_tokenizer(EXAMPLES, "word", 100)
    keras.utils.set_random_seed(1)
    defaults = {"labels": LABELS, "embedding_dim": 5, "units": 7, "max_length": 30}
    model = EntailmentModel({"vocabulary_size": tokenizer.vocabulary_size, **defaults, **settings}, tokenizer)
    generator = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign(generator.normal(0, 0.5, weight.shape).astype(np.float16).astype(np.float32))
    return model


# The papers in NumPy, one pair at a time


def numbers(variable):
    return np.asarray(variable, np.float64)


def dense(layer, x):
    found = x @ numbers(layer.kernel)
    return found + numbers(layer.bias) if layer.use_bias else found


def softmax(score):
    powers = np.exp(score - score.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def rectified(layer, x):
    return np.maximum(dense(layer.second, np.maximum(dense(layer.first, x), 0)), 0)


def embedded(model, ids):
    return numbers(model.embedding.embeddings)[ids]


def decomposable(model, premise, hypothesis):
    """Parikh et al., 2016, section 3: vector, and both alignments."""
    reader = model.reader
    sides = []
    for ids in (premise, hypothesis):
        x = embedded(model, ids)
        sides.append(dense(reader.project, x * np.sqrt(x.shape[-1] / (x**2).sum(-1, keepdims=True))))
    a, b = sides
    e = (a + rectified(reader.attend, a)) @ (b + rectified(reader.attend, b)).T / np.sqrt(a.shape[-1])
    beta, alpha = softmax(e) @ b, softmax(e.T) @ a
    sums = []
    for word, aligned in ((a, beta), (b, alpha)):
        parts = [word, aligned]
        if model.config.interaction:
            parts += [abs(word - aligned), word * aligned]
        sums.append(rectified(reader.compare, np.concatenate(parts, -1)).sum(0))
    return rectified(reader.aggregate, np.concatenate(sums)), {"premise": softmax(e), "hypothesis": softmax(e.T)}


def lstm(layer, inputs, h, c):
    kernel, recurrent, bias = map(numbers, layer.get_weights())
    outputs = []
    for x in inputs:
        i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        i, f, o = (1 / (1 + np.exp(-one)) for one in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), h, c


def word_by_word(model, premise, hypothesis):
    """Rocktäschel et al., 2016, the sections on conditional encoding and word-by-word attention."""
    reader, units = model.reader, model.config.units
    zero = np.zeros(units)
    values, _, cell = lstm(reader.premise_lstm, dense(reader.project, embedded(model, premise)), zero, zero)
    states, last, _ = lstm(reader.hypothesis_lstm, dense(reader.project, embedded(model, hypothesis)), zero, cell)
    score = reader.attention.score
    from_state, from_read = numbers(score.query_kernel)[:units], numbers(score.query_kernel)[units:]
    read, rows = zero, []
    for state in states:
        hidden = np.tanh(values @ numbers(score.key_kernel) + state @ from_state + read @ from_read)
        rows.append(softmax(hidden @ numbers(score.scale)))
        read = rows[-1] @ values + np.tanh(dense(reader.carry, read))
    vector = np.tanh(dense(reader.mix_read, read) + dense(reader.mix_state, last))
    return vector, {"hypothesis": np.array(rows)}


def bag(model, premise, hypothesis):
    u, v = (embedded(model, ids).mean(0) for ids in (premise, hypothesis))
    hidden = dense(model.reader.hidden, np.concatenate([u, v, abs(u - v), u * v]))
    return np.maximum(hidden, 0), {}


REFERENCES = {"decomposable": decomposable, "word_by_word": word_by_word, "bag": bag}


@each_variant
def test_the_network_is_that_of_the_paper(settings):
    model = make_model(**settings)
    for one in INPUTS:
        ids = model.vectorize(one)
        vector, weights = REFERENCES[settings["method"]](model, ids["premise"], ids["hypothesis"])
        wanted = softmax(dense(model.output_layer, vector))
        found = model.run(one)
        np.testing.assert_allclose([*found.extra["probabilities"].values()], wanted, atol=2e-5)
        assert found.output == LABELS[int(wanted.argmax())]
        assert {other.name for other in found.attention} == set(weights)
        for other in found.attention:
            np.testing.assert_allclose(other.weights, weights[other.name], atol=2e-5)


def test_maps_have_the_words_of_their_sentences():
    premise, hypothesis = "A dog runs.", "Two women aren't zorx"
    words = {"premise": ("a", "dog", "runs", "."), "hypothesis": ("two", "women", "are", "n't", "<unk>")}
    maps = {one.name: one for one in make_model().entail(premise, hypothesis).attention}
    assert (maps["hypothesis"].rows, maps["hypothesis"].columns) == (words["hypothesis"], words["premise"])
    assert (maps["premise"].rows, maps["premise"].columns) == (words["premise"], words["hypothesis"])
    (only,) = make_model(method="word_by_word").entail(premise, hypothesis).attention
    assert (only.name, only.rows, only.columns) == ("hypothesis", words["hypothesis"], words["premise"])
    assert make_model(method="bag").entail(premise, hypothesis).attention == []


@each_variant
def test_padding_and_company_change_nothing(settings):
    model = make_model(**settings)
    together = model.entail(INPUTS)
    for one, other in zip(INPUTS, together, strict=True):
        alone = model.entail(**one)
        assert alone.output == other.output
        assert alone.extra["probabilities"] == pytest.approx(other.extra["probabilities"], abs=1e-6)
        for mine, theirs in zip(alone.attention, other.attention, strict=True):
            np.testing.assert_allclose(mine.weights, theirs.weights, atol=1e-6)
    ids = model.vectorize(INPUTS[0])
    wide = {name: tf.constant([[*row, *[0] * (3 + len(row))]]) for name, row in ids.items()}
    logits, weights = model.look(wide)
    np.testing.assert_allclose(logits, model({name: tf.constant([row]) for name, row in ids.items()}), atol=1e-5)
    for name, found in weights.items():
        rows, columns = (ids[name], ids["premise" if name == "hypothesis" else "hypothesis"])
        assert not found[0, :, len(columns) :].numpy().any()
        np.testing.assert_allclose(found[0, : len(rows)].numpy().sum(-1), 1, atol=1e-6)


@each_variant
def test_every_trainable_weight_learns(settings):
    model = make_model(**settings)
    batch = {
        name: tf.ragged.constant([model.vectorize(one)[name] for one in EXAMPLES], dtype=tf.int32).to_tensor()
        for name in model.columns
    }
    with tf.GradientTape() as tape:
        loss, count = model.loss_terms(batch, training=True)
    assert float(count) == len(EXAMPLES)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all(), variable.path
        assert np.any(gradient != 0), variable.path
        if variable is model.embedding.embeddings:
            assert not np.any(gradient[0]), "padding learns"


@each_variant
def test_a_preset_comes_back(settings, tmp_path):
    model = make_model(**settings)
    copy = preset.load(preset.save(model, tmp_path / "preset"))
    assert copy.config == model.config
    assert [one.to_dict() for one in copy.entail(INPUTS)] == [one.to_dict() for one in model.entail(INPUTS)]


@pytest.mark.parametrize("settings", [VARIANTS[1], VARIANTS[3]], ids=["word_by_word", "decomposable"])
def test_exports_say_what_the_model_says(settings, tmp_path):
    model = make_model(**settings)
    lite = export.to_tflite(model, tmp_path / "model.tflite").checks
    assert lite["equal_outputs"] == 1.0 and lite["cases"] == 3
    saved = export.to_saved_model(model, tmp_path / "saved").checks
    assert saved["text"] == {"cases": 3, "equal_outputs": 1.0}


@each_variant
def test_strings_in_the_graph_give_the_ids_of_python(settings):
    model = make_model(**settings)
    texts = [INPUTS[0], {"premise": "\u00bfZorx?  It isn't", "hypothesis": "x" * 5000}, INPUTS[2]]
    columns = [tf.constant([one[name] for one in texts]) for name in ("premise", "hypothesis")]
    found = model.serving_functions()["text"](*columns)
    for place, one in enumerate(texts):
        for name, wanted in model.vectorize(one).items():
            row = found[f"{name}_ids"][place].numpy().tolist()
            assert row == wanted + [0] * (len(row) - len(wanted))
    assert [one.decode() for one in found["text"].numpy()] == [one.output for one in model.entail(texts)]
    empty = model.serving_functions()["text"](tf.constant([""]), tf.constant([""]))
    assert np.isfinite(empty["probabilities"]).all()


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ("Only one text.", TypeError, "`entail` wants text, or a dict with text under premise, hypothesis"),
        ({"premise": "A dog runs."}, TypeError, "a dict with text under premise, hypothesis. Received dict"),
        ([*INPUTS, {"premise": " ", "hypothesis": "a"}], ValueError, r"The premise is empty \(input 5\)"),
        ({"premise": "a", "hypothesis": "a " * 31}, ValueError, "The hypothesis has 31 words.*at most 30. Shorten it"),
        ([INPUTS[0], {"premise": "\u200b", "hypothesis": "a"}], ValueError, r"The premise has no word.*\(input 2\)"),
    ],
)
def test_bad_inputs_are_told(inputs, error, message):
    with pytest.raises(error, match=message):
        make_model().entail(inputs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "words"}, "`method` must be one of 'decomposable', 'word_by_word', 'bag'. Received 'words'"),
        ({"units": 0}, "`units` must be an int >= 1"),
        ({"interaction": 1}, "`interaction` must be true or false"),
        ({"method": "bag", "interaction": True}, "`interaction` is of the method 'decomposable'; 'bag' compares no"),
    ],
)
def test_bad_settings_are_told(settings, message):
    with pytest.raises(ValueError, match=message):
        EntailmentConfig(vocabulary_size=9, labels=("a", "b"), **settings)


def test_an_unknown_label_of_an_example_is_told():
    with pytest.raises(ValueError, match="The label 'maybe' is not one that the model has.*contradiction, entailment"):
        make_model().vectorize({**INPUTS[0], "label": "maybe"})


@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_learns_its_examples(method, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in EXAMPLES), "utf-8")
    vectors = WordVectors(("dog", "women"), np.eye(2, 5, dtype=np.float32))
    (tmp_path / "vectors.txt").write_text(
        "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(vectors.words, vectors.vectors, strict=True))
    )
    recipe = Recipe.from_dict(
        {
            "version": 1,
            "family": "entailment",
            "model": {"method": method, "embedding_dim": 5, "units": 8, "embeddings": "frozen"},
            "tokenizer": {"kind": "word", "vocabulary_size": 60},
            "data": {"vectors": {"text": str(tmp_path / "vectors.txt")}},
            "optimizer": {"learning_rate": 0.02},
            "training": {"steps": 60, "batch_size": 4, "early_stopping": {"metric": "accuracy"}},
        }
    )
    assert session.train(recipe, tmp_path / "run", [path], [path]).steps == 60
    model = zoo.load(tmp_path / "run")
    assert model.config.labels == tuple(LABELS)
    dog = model.tokenizer.encode("dog")[0]
    np.testing.assert_array_equal(model.embedding.embeddings[dog], [1, 0, 0, 0, 0])
    scores = evaluate(model, EXAMPLES)
    assert scores["task"] == "entailment"
    assert scores["accuracy"] == 100.0


def test_any_tokenizer_will_do():
    tokenizer = WordTokenizer.from_words(["a", "dog"])
    model = EntailmentModel({"vocabulary_size": tokenizer.vocabulary_size, "labels": LABELS}, tokenizer)
    assert model.entail("a dog", "dog").output in LABELS
    bare = EntailmentModel({"vocabulary_size": 9, "labels": LABELS})
    with pytest.raises(ValueError, match="The model has no tokenizer, so it cannot read text"):
        bare.entail("a dog", "dog")
    assert set(bare.serving_functions()) == {"ids"}

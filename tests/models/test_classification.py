from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention import export, zoo
from keras_attention.export import runner
from keras_attention.models import ClassificationModel
from keras_attention.models.text_encoder import DirectionalEncoder
from keras_attention.text import WordTokenizer, WordVectors
from keras_attention.training import Recipe, session
from keras_attention.training.readers import DataError

TEXTS = ["a good film .", "a bad film , really bad !", "it isn't good", "good"]
WORDS = WordTokenizer.train(TEXTS)
LABELS = ("bad", "good", "so-so")
NETWORKS = [
    ("lstm", "structured"),
    ("gru", "attentive"),
    ("directional", "multi_dim"),
    ("none", "max"),
    ("lstm", "mean"),
]


def make_model(encoder="lstm", pooling="structured", seed=3, **config):
    """A model whose every weight is different, and exact in half precision."""
    settings = {"embedding_dim": 6, "units": 8, "attention_units": 5, "rows": 3, "max_length": 40, **config}
    settings = {"vocabulary_size": WORDS.vocabulary_size, "labels": LABELS, **settings}
    model = ClassificationModel({**settings, "encoder": encoder, "pooling": pooling}, WORDS)
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.5, weight.shape).astype(np.float16).astype(np.float32))
    return model


def ids(*rows, width=0):
    width = max(width, *map(len, rows))
    return tf.constant([[*row, *[0] * (width - len(row))] for row in rows], tf.int32)


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_padding_changes_nothing_and_a_batch_gives_what_its_rows_give(encoder, pooling):
    model = make_model(encoder, pooling)
    rows = [WORDS.encode(text) for text in TEXTS]
    together = model({"text": ids(*rows)})
    np.testing.assert_allclose(model({"text": ids(*rows, width=30)}), together, atol=1e-5)
    for row, wanted in zip(rows, together, strict=True):
        np.testing.assert_allclose(model({"text": ids(row)})[0], wanted, atol=1e-5)


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_a_label_its_probability_and_what_was_looked_at(encoder, pooling):
    model = make_model(encoder, pooling)
    first, *_ = found = model.classify(TEXTS)
    logits = np.asarray(model({"text": ids(WORDS.encode(TEXTS[0]))}), np.float64)[0]
    probabilities = np.exp(logits) / np.exp(logits).sum()
    assert first.output == LABELS[int(probabilities.argmax())]
    assert first.score == pytest.approx(probabilities.max(), rel=1e-5)
    assert list(first.extra["probabilities"]) == list(LABELS)
    np.testing.assert_allclose(list(first.extra["probabilities"].values()), probabilities, rtol=1e-4)
    for one, text in zip(found, TEXTS, strict=True):
        (seen,) = one.attention
        assert list(seen.columns) == WORDS.words(text)
        np.testing.assert_allclose(seen.weights.sum(axis=-1), 1, rtol=1e-5)
        assert len(seen.rows) == (3 if pooling == "structured" else 1)
    assert model.classify(TEXTS[0], attention=False).attention == []


def test_the_structured_network_is_that_of_the_paper():
    """Lin et al., 2017, equations 5 to 7, on the words themselves, in float64."""
    model = make_model("none", hidden_units=4)
    row = WORDS.encode(TEXTS[1])
    weights = {weight.path: np.asarray(weight, np.float64) for weight in model.weights}

    def weight(end):
        (found,) = [value for path, value in weights.items() if path.endswith(end)]
        return found

    hidden = weight("embedding/embeddings")[row]
    scores = np.tanh(hidden @ weight("pooling/kernel")) @ weight("row_kernel")  # (T, r)
    attention = np.exp(scores - scores.max(axis=0)) / np.exp(scores - scores.max(axis=0)).sum(axis=0)
    vector = (attention.T @ hidden).reshape(-1)
    vector = np.maximum(vector @ weight("hidden/kernel") + weight("hidden/bias"), 0)
    logits = vector @ weight("output/kernel") + weight("output/bias")
    np.testing.assert_allclose(model({"text": ids(row)})[0], logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.classify(TEXTS[1]).attention[0].weights, attention.T, atol=1e-5)


def test_directional_attention_is_that_of_the_paper():
    """Shen et al., 2018, section 3.2, word by word in float64."""
    layer = DirectionalEncoder(3)
    layer.build((None, None, 4))
    generator = np.random.default_rng(0)
    for one in layer.weights:
        one.assign(generator.normal(0, 0.7, one.shape))
    inputs = generator.normal(size=(1, 5, 4)).astype(np.float32)
    found, _ = layer(inputs, mask=tf.constant([[True, True, True, True, False]]))

    def elu(x):
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))

    def dense(part, x):
        return x @ np.asarray(part.kernel, np.float64) + np.asarray(part.bias, np.float64)

    hidden = elu(dense(layer.project, inputs[0].astype(np.float64)))
    for side, (attention, gate) in enumerate(zip(layer.attentions, layer.gates, strict=True)):
        for word in range(4):
            others = range(word + 1, 4) if side == 0 else range(word)
            read = np.zeros(3)
            if len(others):
                query = tf.constant(hidden[None, word : word + 1], tf.float32)
                keys = tf.constant(hidden[None, list(others)], tf.float32)
                read = np.asarray(attention([query, keys]), np.float64)[0, 0]  # itself tested against its paper
            share = 1 / (1 + np.exp(-dense(gate, np.concatenate([read, hidden[word]]))))
            wanted = share * hidden[word] + (1 - share) * read
            np.testing.assert_allclose(found[0, word, 3 * side : 3 * side + 3], wanted, rtol=1e-4, atol=1e-5)


def test_the_penalty_is_part_of_the_training_loss_alone():
    batch = {"text": ids(*[WORDS.encode(text) for text in TEXTS]), "label": tf.constant([[2], [1], [3], [2]])}
    plain, with_penalty = make_model(), make_model(penalty=0.5)
    loss, count = plain.loss_terms(batch, training=True)
    more, _ = with_penalty.loss_terms(batch, training=True)
    _, weights = plain.look({"text": batch["text"]})
    products = np.einsum("brt,bst->brs", weights["words"], weights["words"]) - np.eye(3)
    assert float(count) == 4
    assert float(more - loss) == pytest.approx(0.5 * np.square(products).sum(), rel=1e-4)
    np.testing.assert_allclose(with_penalty.loss_terms(batch, False)[0], plain.loss_terms(batch, False)[0], rtol=1e-6)


def test_the_loss_by_hand():
    model = make_model(label_weights=[2.0, 0.5, 1.0], label_smoothing=0.3)
    batch = {"text": ids(WORDS.encode(TEXTS[0]), WORDS.encode(TEXTS[1]), []), "label": tf.constant([[1], [2], [0]])}
    logits = np.asarray(model({"text": batch["text"]}), np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    smoothed = 0.7 * np.array([log_p[0, 0], log_p[1, 1]]) + 0.3 * log_p[:2].mean(axis=1)
    loss, count = model.loss_terms(batch, training=True)
    assert float(count) == 2  # a row of padding has no label
    assert float(loss) == pytest.approx(-(smoothed * [2.0, 0.5]).sum(), rel=1e-5)
    assert float(model.loss_terms(batch, False)[0]) == pytest.approx(-log_p[0, 0] - log_p[1, 1], rel=1e-5)


def test_a_row_of_padding_gives_no_nan_and_no_gradient():
    for encoder, pooling in NETWORKS:
        model = make_model(encoder, pooling)
        batch = {"text": ids(WORDS.encode("good"), []), "label": tf.constant([[1], [0]])}
        with tf.GradientTape() as tape:
            loss, _ = model.loss_terms(batch, training=True)
        for gradient in tape.gradient(loss, [one.value for one in model.trainable_variables]):
            assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_the_temperature_flattens_probabilities_and_keeps_the_label():
    sharp, flat = make_model(), make_model(temperature=5.0)
    for one, other in zip(sharp.classify(TEXTS), flat.classify(TEXTS), strict=True):
        assert one.output == other.output
        assert one.score > other.score


def test_more_labels_are_alternatives():
    best = make_model().classify(TEXTS[0], n_best=9)
    scores = [best.score, *[one.score for one in best.alternatives]]
    assert scores == sorted(scores, reverse=True)
    assert len({best.output, *[one.output for one in best.alternatives]}) == len(LABELS)


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_it_comes_back_from_its_preset(encoder, pooling, tmp_path):
    model = make_model(encoder, pooling, penalty=0.1 if pooling == "structured" else 0.0)
    copy = zoo.load(zoo.save(model, tmp_path / "preset"))
    assert copy.config == model.config
    assert [one.to_dict() for one in copy.classify(TEXTS)] == [one.to_dict() for one in model.classify(TEXTS)]


def test_it_comes_back_from_a_keras_file(tmp_path):
    import keras

    model = make_model()
    model.save(tmp_path / "model.keras")
    copy = keras.saving.load_model(tmp_path / "model.keras")
    assert copy.classify(TEXTS[0]).to_dict() == model.classify(TEXTS[0]).to_dict()


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_a_tflite_file_says_what_the_model_says(encoder, pooling, tmp_path):
    model = make_model(encoder, pooling)
    report = export.to_tflite(model, tmp_path / "model.tflite")
    assert report.checks["equal_outputs"] == 1
    run = runner.tflite_runner(report.path, "ids")
    for text in TEXTS:
        row = np.array([WORDS.encode(text)], np.int32)
        logits, weights = model.look({"text": row})
        found = run(text=row)
        np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(logits), atol=1e-5)
        np.testing.assert_allclose(found["attention_words"], weights["words"], atol=1e-5)
        assert LABELS[found["label"][0]] == model.classify(text).output


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("quantize", ["float16", "int8"])
def test_smaller_files_pass_their_check(quantize, tmp_path):
    assert export.to_tflite(make_model(), tmp_path / "model.tflite", quantize=quantize).checks["cases"] == 3


def test_a_saved_model_reads_text(tmp_path):
    model = make_model()
    report = export.to_saved_model(model, tmp_path / "saved")
    assert report.checks["text"]["equal_outputs"] == 1
    cases = {"one": {"text": np.array([text.encode() for text in TEXTS])}}
    found = runner.run_saved_model(str(report.path), "text", cases)["one"]
    assert [one.decode() for one in found["text"]] == [one.output for one in model.classify(TEXTS)]
    sidecar = report.sidecar.read_text("utf-8")
    assert '"labels"' in sidecar
    assert '"kind": "word"' in sidecar
    with pytest.raises(ValueError, match="`beam_size` is of a search, and a model of the task 'classification' has no"):
        export.to_tflite(model, tmp_path / "model.tflite", beam_size=3)


TEXT = st.text(st.sampled_from("agodbfilm .,!'nt\u2019É\n\t") | st.characters(codec="utf-8"), max_size=30)


@settings(max_examples=60)
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_the_graph_reads_the_words_that_python_reads(texts):
    model = make_model("none", "mean")
    rows = [model.words_of("text", text) for text in texts]
    found = model.graph_ids("text", tf.constant(texts)).numpy()
    np.testing.assert_array_equal(found, ids(*rows, width=found.shape[1]) if found.size else np.zeros((len(texts), 0)))


def test_texts_that_cannot_be_read_are_told():
    model = make_model()
    assert model.classify([]) == []
    with pytest.raises(ValueError, match=r"The text is empty \(input 2\). Give at least one word"):
        model.classify(["good", " \n"])
    with pytest.raises(ValueError, match=r"The text has 41 words; the model reads at most 40. Shorten it. It begins"):
        model.classify("good " * 41)
    with pytest.raises(TypeError, match="`classify` wants text.*Received int"):
        model.classify(3)
    with pytest.raises(
        TypeError, match="`classify` has no option 'beam_size'. Expected some of attention, batch_tokens"
    ):
        model.classify("good", beam_size=2)
    with pytest.raises(ValueError, match="The model has no tokenizer, so it cannot read text"):
        ClassificationModel(model.config).classify("good")
    assert model.classify("x" * 5000).output in LABELS  # one unknown word


def test_labels_that_training_did_not_see_are_told():
    with pytest.raises(ValueError, match="The label 'great' is not one that the model has. Expected one of bad, good"):
        make_model().vectorize({"text": "good", "label": "great"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": []}, "`labels` must name at least one label"),
        ({"labels": ["a", "a"]}, "each once"),
        ({"labels": ["a", " "]}, "`labels` must be text"),
        ({"labels": "ab"}, "`labels` must be a list. Received 'ab'"),
        ({"label_weights": [1.0]}, "a number for each of the 3 labels. Received 1"),
        ({"label_weights": [1.0, 0.0, 1.0]}, "`label_weights` must be a finite number above 0. Received 0.0"),
        ({"temperature": 0}, "`temperature` must be a finite number above 0"),
        ({"pooling": "sum"}, "`pooling` must be one of 'structured', 'multi_dim'"),
        ({"encoder": "rnn"}, "`encoder` must be one of 'lstm', 'gru', 'directional', 'none'"),
        (
            {"penalty": 0.1, "pooling": "max"},
            "`penalty` keeps the rows of the pooling 'structured' apart; 'max' has no",
        ),
        ({"units": 7}, "`units` must be even"),
        ({"unit": 7}, "Unknown key 'unit' in ClassificationConfig.*Did you mean 'units'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    good = {"vocabulary_size": WORDS.vocabulary_size, "labels": LABELS}
    with pytest.raises(ValueError, match=message):
        ClassificationModel({**good, **change}, WORDS)


def write(path, rows):
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows), "utf-8")
    return path


ROWS = [("a good film", "good"), ("good , really", "good"), ("so good !", "good"), ("a bad film", "bad")] * 4


def recipe(*settings):
    values = {
        "version": 1,
        "family": "classification",
        "model": {"embedding_dim": 6, "units": 8, "rows": 2, "attention_units": 4, "label_weights": "balanced"},
        "tokenizer": {"kind": "word", "vocabulary_size": 100},
        "optimizer": {"learning_rate": 0.05},
        "training": {"seed": 1, "epochs": 4, "batch_size": 4, "early_stopping": {"metric": "accuracy"}},
        "evaluation": {"samples": 1},
    }
    return Recipe.from_dict(values).override(settings)


def test_a_training_learns_words_labels_and_weights(tmp_path):
    data = write(tmp_path / "data.tsv", ROWS)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5'] * 6)}\n" for word in ("good", "bad")), "utf-8")
    done = session.train(recipe(f"data.vectors={{text: {vectors}}}"), tmp_path / "run", [data], [data])
    assert (done.metric, done.best_metric) == ("accuracy", 100)
    model = zoo.load(tmp_path / "run")
    assert model.config.labels == ("bad", "good")
    assert model.config.label_weights == (2.0, 2 / 3)
    assert model.classify("bad film").output == "bad"
    scores = model.metadata["scores"]["validation"]
    assert {"loss", "accuracy", "macro_f1", "ece", "nll"} <= set(scores)


def test_a_label_of_validation_that_training_did_not_have_names_its_line(tmp_path):
    data, other = write(tmp_path / "data.tsv", ROWS), write(tmp_path / "other.tsv", [("a film", "good"), ("so", "odd")])
    with pytest.raises(DataError, match=r"other.tsv:2: The model refuses this: The label 'odd' is not one that the mo"):
        session.train(recipe(), tmp_path / "run", [data], [other])


def test_words_that_only_the_vectors_have_join_the_vocabulary(tmp_path):
    data = write(tmp_path / "data.tsv", ROWS)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join(['0.5'] * 6)}\n" for word in ("good", "quagga", "zebra")), "utf-8")
    named = f"data.vectors={{text: {vectors}}}"
    session.train(recipe(named, "tokenizer.vector_words=2"), tmp_path / "run", [data], [data])
    model = zoo.load(tmp_path / "run")
    assert "quagga" in model.tokenizer.tokens([model.tokenizer.vocabulary_size - 1])
    assert model.tokenizer.unk_id in model.tokenizer.encode("zebra")
    with pytest.raises(ValueError, match="vector_words` is 2, but `data.vectors` names no file"):
        session.train(recipe("tokenizer.vector_words=2"), tmp_path / "other", [data], [data])
    with pytest.raises(ValueError, match="tokenizer.vector_words"):
        recipe("tokenizer.vector_words=2", "tokenizer.kind=sentencepiece")


def test_vectors_of_another_width_or_side_are_refused():
    vectors = WordVectors(("good",), np.ones((1, 4), np.float32))
    with pytest.raises(ValueError, match="The vectors have 4 numbers"):
        make_model().set_word_vectors(vectors)
    with pytest.raises(ValueError, match="`side` must be 'text'"):
        make_model().set_word_vectors(vectors, "source")

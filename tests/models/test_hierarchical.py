from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention import export, zoo
from keras_attention.export import runner
from keras_attention.models import HierarchicalModel

DOCUMENTS = ["a good film . really good !\nyes", "a bad film , really bad . no", "good"]
WORDS = HierarchicalModel.learn_tokenizer([{"text": text} for text in DOCUMENTS], "word", 100)
LABELS = ("bad", "good")
LONG = "a good film . " * 40 + "and a bad one"
NETWORKS = [("gru", "attentive"), ("lstm", "mean"), ("none", "max"), ("none", "attentive")]


def make_model(encoder="gru", pooling="attentive", seed=3, **config):
    sizes = {"embedding_dim": 6, "units": 8, "attention_units": 5, "max_words": 7, **config}
    network = {"encoder": encoder, "pooling": pooling, "labels": LABELS}
    model = HierarchicalModel({"vocabulary_size": WORDS.vocabulary_size, **sizes, **network}, WORDS)
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.6, weight.shape).astype(np.float16).astype(np.float32))
    return model


def ids(model, *texts, width=0):
    rows = [model.words_of("text", text) for text in texts]
    width = max(width, *map(len, rows))
    return tf.constant([[*row, *[0] * (width - len(row))] for row in rows], tf.int32)


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_padding_changes_nothing_and_documents_do_not_see_each_other(encoder, pooling):
    model = make_model(encoder, pooling)
    together = model({"text": ids(model, *DOCUMENTS, LONG)})
    np.testing.assert_allclose(model({"text": ids(model, *DOCUMENTS, LONG, width=200)}), together, atol=1e-5)
    for text, wanted in zip((*DOCUMENTS, LONG), together, strict=True):
        np.testing.assert_allclose(model({"text": ids(model, text, text)})[0], wanted, atol=1e-5)
        np.testing.assert_allclose(model({"text": ids(model, text)})[0], wanted, atol=1e-5)  # read in chunks


def test_both_levels_are_those_of_the_paper():
    """Yang et al., 2016, equations 5 to 10, without recurrence, in float64."""
    model = make_model("none")
    weights = {weight.path: np.asarray(weight, np.float64) for weight in model.weights}

    def weight(*parts):
        (found,) = [value for path, value in weights.items() if all(part in path for part in parts)]
        return found

    def attend(states, level):
        hidden = np.tanh(states @ weight(level, "kernel") + weight(level, "bias"))
        scores = hidden @ weight(level, "query")
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        return shares @ states, shares

    table = weight("embedding/embeddings")
    sentences = [["a", "good", "film", "."], ["really", "good", "!", "¶"], ["yes"]]
    read = [attend(table[WORDS.encode_words(words)], "word_pooling") for words in sentences]
    document, shares = attend(np.stack([vector for vector, _ in read]), "sentence_pooling")
    logits = document @ weight("output", "kernel") + weight("output", "bias")
    np.testing.assert_allclose(model({"text": ids(model, DOCUMENTS[0])})[0], logits, rtol=1e-4, atol=1e-5)
    words, whole = model.classify(DOCUMENTS[0]).attention
    np.testing.assert_allclose(whole.weights[0], shares, atol=1e-5)
    for (weight_of, pairs), wanted, (_, own), share in zip(words.sentences(), sentences, read, shares, strict=True):
        assert [word for _, word in pairs] == wanted
        np.testing.assert_allclose([one for one, _ in pairs], own, atol=1e-5)
        assert weight_of == pytest.approx(share, abs=1e-5)


def test_sentences_end_at_stops_at_lines_and_after_max_words():
    model = make_model()
    found = model.classify("good\ngood . bad ! bad " + "film " * 9, attention=True).attention[1]
    assert found.columns == ("good ¶", "good .", "bad !", "bad" + 6 * " film", "film film film")
    np.testing.assert_allclose(found.weights.sum(), 1, rtol=1e-5)


LINES = st.text(st.sampled_from("agodb film.!?,\n\r\t ¶"), max_size=40)


@settings(max_examples=60)
@given(st.lists(LINES, min_size=1, max_size=3))
def test_the_graph_reads_what_python_reads(texts):
    model = make_model("none", "mean")
    rows = [model.words_of("text", text) for text in texts]
    found = model.graph_ids("text", tf.constant(texts)).numpy()
    assert [row[row > 0].tolist() for row in found] == rows


@pytest.mark.parametrize(("encoder", "pooling"), NETWORKS)
def test_exports_say_what_the_model_says_for_documents_of_any_length(encoder, pooling, tmp_path):
    model = make_model(encoder, pooling)
    report = export.to_tflite(model, tmp_path / "model.tflite")
    run = runner.tflite_runner(report.path, "ids")
    for text in (*DOCUMENTS, LONG):
        row = ids(model, text).numpy()
        logits, weights = model.look({"text": row})
        found = run(text=row)
        np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(logits), atol=1e-5)
        np.testing.assert_allclose(found["attention_words"], weights["words"], atol=1e-5)
        np.testing.assert_allclose(found["attention_sentences"], weights["sentences"], atol=1e-5)
    if encoder == "gru":
        report = export.to_saved_model(model, tmp_path / "saved")
        assert report.checks["text"]["equal_outputs"] == 1


def test_it_comes_back_from_its_preset(tmp_path):
    model = make_model()
    copy = zoo.load(zoo.save(model, tmp_path / "preset"))
    assert [one.to_dict() for one in copy.classify(DOCUMENTS)] == [one.to_dict() for one in model.classify(DOCUMENTS)]


def test_a_page_shows_both_levels(tmp_path):
    words, _ = make_model().classify("a good <film> . bad").attention
    page = words.html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert page.count('<p class="sentence"') == 2
    assert "&lt;" in page
    assert "<film>" not in page


def test_documents_of_many_sentences_are_read_and_empty_ones_told():
    model = make_model("none")
    found = model.classify("good film . " * 10_000)
    assert found.output in LABELS
    assert len(found.attention[1].columns) == 10_000
    with pytest.raises(ValueError, match="The text is empty"):
        model.classify("\n \n")
    with pytest.raises(ValueError, match="The text has 101 words; the model reads at most 100"):
        make_model(max_length=100).classify("good " * 101)
    assert model.classify("x" * 5000).attention[1].columns == ("<unk>",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": "rnn"}, "`encoder` must be one of 'gru', 'lstm', 'none'"),
        ({"pooling": "sum"}, "`pooling` must be one of 'attentive', 'mean', 'max'"),
        ({"units": 9}, "`units` must be even"),
        ({"max_words": 0}, "`max_words` must be an int >= 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalModel({"vocabulary_size": WORDS.vocabulary_size, "labels": LABELS, **change}, WORDS)

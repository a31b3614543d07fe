from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.models import TranslationConfig, TranslationModel
from keras_attention.models.losses import smoothed_cross_entropy
from keras_attention.models.sequences import budget_batches, pad_rows
from tests.tiny import PAIRS, make_model

BATCH = {
    "source": tf.constant([[9, 8, 7, 6, 3], [5, 3, 0, 0, 0], [11, 12, 3, 0, 0]], tf.int32),
    "target": tf.constant([[20, 21, 3, 0], [30, 31, 32, 3], [3, 0, 0, 0]], tf.int32),
}
SENTENCES = [source for source, _ in PAIRS]


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "concat"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_attending_for_all_steps_at_once_equals_the_step_loop(cell, score, num_layers):
    units = 8 if score == "concat" else None
    model = make_model(cell=cell, score=score, score_units=units, num_layers=num_layers, feed="nothing")
    prepared, states = model.encode(BATCH["source"])
    embedded = model.target_embedding(BATCH["target"])
    at_once = model.decoder(embedded, states, prepared)
    step_by_step = model.decoder.call_step_by_step(embedded, states, prepared)
    np.testing.assert_allclose(at_once, step_by_step, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("tie", ["none", "output", "all"])
@pytest.mark.parametrize("feed", ["nothing", "context", "attentional"])
def test_every_weight_learns(feed, tie, bidirectional):
    model = make_model(feed=feed, tie_embeddings=tie, bidirectional=bidirectional, num_layers=2, cell="lstm")
    with tf.GradientTape() as tape:
        loss, count = model.loss_terms(BATCH, training=True)
    assert float(count) == 8
    assert math.isfinite(float(loss))
    for weight, gradient in zip(
        model.trainable_weights, tape.gradient(loss, [one.value for one in model.trainable_weights]), strict=True
    ):
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), weight.path
        assert np.abs(dense).max() > 0, weight.path


def test_two_feeds_differ():
    outputs = []
    for feed in ("nothing", "context", "attentional"):
        model = make_model(feed=feed)
        outputs.append(model(BATCH).numpy())
    assert not np.allclose(outputs[0], outputs[1], atol=1e-3)
    assert not np.allclose(outputs[1], outputs[2], atol=1e-3)


@pytest.mark.parametrize("feed", ["nothing", "attentional"])
def test_padding_changes_no_loss_and_no_gradient(feed):
    model = make_model(feed=feed)
    wider = {name: tf.pad(ids, [[0, 0], [0, 3]]) for name, ids in BATCH.items()}
    results = []
    for batch in (BATCH, wider):
        with tf.GradientTape() as tape:
            loss, _ = model.loss_terms(batch, training=False)
        gradients = tape.gradient(loss, [one.value for one in model.trainable_weights])
        results.append([loss, *map(tf.convert_to_tensor, gradients)])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_the_loss_of_a_batch_is_the_sum_over_its_rows(model):
    together, count = model.loss_terms(BATCH, training=False)
    rows = [{name: ids[row : row + 1] for name, ids in BATCH.items()} for row in range(3)]
    alone = [model.loss_terms(row, training=False) for row in rows]
    np.testing.assert_allclose(together, sum(float(loss) for loss, _ in alone), rtol=1e-5)
    assert float(count) == sum(float(one) for _, one in alone)


def test_an_empty_row_is_harmless(model):
    with_empty = {name: tf.pad(ids, [[0, 1], [0, 0]]) for name, ids in BATCH.items()}
    np.testing.assert_allclose(model.loss_terms(with_empty, False)[0], model.loss_terms(BATCH, False)[0], rtol=1e-5)


def test_the_loss_is_label_smoothed_cross_entropy():
    random = np.random.default_rng(0)
    logits, labels, smoothing = random.normal(size=(4, 6)), [0, 5, 2, 2], 0.3
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    target = (1 - smoothing) * np.eye(6)[labels] + smoothing / 6
    found = smoothed_cross_entropy(tf.constant(logits, tf.float32), tf.constant(labels), smoothing)
    np.testing.assert_allclose(found, -(target * log_p).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_of_the_loss_is_softmax_less_what_is_wanted(smoothing):
    rng = np.random.default_rng(1)
    logits, labels, weights = rng.normal(size=(4, 7)), np.array([1, 6, 0, 1]), np.array([1.0, -2.0, 0.5, 0.0])
    wanted = (1 - smoothing) * np.eye(7)[labels] + smoothing / 7
    expected = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) - wanted) * weights[:, None]
    variable = tf.Variable(logits, dtype=tf.float32)
    with tf.GradientTape() as tape:
        losses = smoothed_cross_entropy(variable, tf.constant(labels), smoothing)
        loss = tf.reduce_sum(losses * weights.astype("float32"))
    np.testing.assert_allclose(tape.gradient(loss, variable), expected, atol=1e-6)


def test_calling_gives_the_logits_that_the_loss_uses(model):
    total, _ = model.loss_from_logits(model(BATCH), BATCH["target"])
    np.testing.assert_allclose(total, model.loss_terms(BATCH, training=False)[0], rtol=1e-5)


def test_fit_and_compile_work_as_in_keras():
    model = make_model()
    model.compile(keras.optimizers.Adam(0.01))
    data = tf.data.Dataset.from_tensors(BATCH).repeat(12)
    losses = [model.fit(data, shuffle=False, verbose=0).history["loss"][-1] for _ in range(2)]
    assert losses[1] < losses[0]
    assert model.evaluate(tf.data.Dataset.from_tensors(BATCH), verbose=0) < losses[0]


def test_dropout_acts_in_training_only():
    model = make_model(dropout=0.5, embedding_dropout=0.3, num_layers=2)
    quiet = [float(model.loss_terms(BATCH, training=False)[0]) for _ in range(2)]
    noisy = [float(model.loss_terms(BATCH, training=True)[0]) for _ in range(2)]
    assert quiet[0] == quiet[1]
    assert noisy[0] != noisy[1]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_alone_equals_the_sentence_in_a_batch(model, beam_size):
    together = model.translate(SENTENCES[:6], beam_size=beam_size, n_best=beam_size)
    for sentence, one in zip(SENTENCES[:6], together, strict=True):
        alone = model.translate(sentence, beam_size=beam_size, n_best=beam_size)
        assert alone.output == one.output
        np.testing.assert_allclose(alone.score, one.score, rtol=1e-4)
        assert [other.output for other in alone.alternatives] == [other.output for other in one.alternatives]
        np.testing.assert_allclose(alone.attention[0].weights, one.attention[0].weights, atol=1e-5)


def test_the_score_is_the_models_own_log_probability(model):
    for place in model.translate(SENTENCES[0], beam_size=3, n_best=3, length_penalty=0.0).alternatives:
        ids = model.tokenizer.encode(place.output)
        rows = place.attention[0].rows
        if model.tokenizer.tokens(ids) != list(rows[:-1]):
            continue  # the pieces found are not those that the tokenizer would choose for the same text
        batch = {
            "source": tf.constant([model.vectorize({"source": SENTENCES[0]})["source"]]),
            "target": tf.constant([[*ids, 3]]),
        }
        np.testing.assert_allclose(place.score, -float(model.loss_terms(batch, training=False)[0]), rtol=1e-4)


def test_attention_maps_have_the_tokens_of_both_sides(model):
    prediction = model.translate(SENTENCES[1])
    (one,) = prediction.attention
    assert list(one.columns) == model.tokenizer.tokens(model.vectorize({"source": SENTENCES[1]})["source"])
    assert one.rows[-1] == one.columns[-1] == "</s>"
    np.testing.assert_allclose(one.weights.sum(-1), 1, atol=1e-5)
    assert model.translate(SENTENCES[1], attention=False).attention == []


def test_many_sentences_come_back_in_their_order(model):
    small = model.translate(SENTENCES, batch_tokens=40, attention=False)
    large = model.translate(SENTENCES, attention=False)
    assert [one.output for one in small] == [one.output for one in large]
    assert model.translate([]) == []


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        ("  ", ValueError, "The source is empty. Give at least one word"),
        (["One.", ""], ValueError, r"The source is empty \(input 2\)"),
        (7, TypeError, "`translate` wants text.*Received int"),
        ({"text": "x"}, TypeError, "dict with text under source"),
        ("word " * 60, ValueError, "pieces; the model reads at most 31. Split it into sentences"),
        (["One.", "word " * 60], ValueError, r"pieces \(input 2\); the model reads at most 31"),
    ],
)
def test_bad_inputs_are_named(model, inputs, kind, message):
    with pytest.raises(kind, match=message):
        model.translate(inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "`beam_size` must be an int from 1"),
        ({"beam_size": 2, "n_best": 3}, "`n_best` must be an int from 1 to 2"),
        ({"length_penalty": -1}, "`length_penalty` must be a number >= 0"),
        ({"n_best": "2"}, "`n_best` must be an int from 1"),
        ({"length_penalty": math.nan}, "`length_penalty` must be a number >= 0"),
        ({"max_length": -3}, "`max_length` must be an int from 1"),
        ({"max_length": 0}, "`max_length` must be an int from 1"),
        ({"batch_tokens": 0}, "`batch_tokens` must be an int from 1"),
        ({"beam_size": 200}, "`beam_size` must be an int from 1 to 80"),
        ({"coverage_penalty": math.inf}, "`coverage_penalty` must be a number >= 0"),
        ({"min_length": 9, "max_length": 9}, "`min_length` must be an int from 0 to 8"),
        ({"no_repeat_ngram": -1}, "`no_repeat_ngram` must be an int from 0"),
        ({"temperature": 0}, "`temperature` must be a number >= 1e-06"),
        ({"temperature": 1.0, "beam_size": 3}, "A sample is drawn, not searched for"),
        ({"temperature": 1.0, "top_p": 0}, r"`top_p` must be a number in \(0, 1\]"),
        ({"top_k": 4}, "nothing is drawn. Give a `temperature`"),
        ({"temperature": 1.0, "seed": -1}, "`seed` must be an int from 0"),
    ],
)
def test_bad_search_options_are_named(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.translate("One.", **options)


def test_an_unknown_option_is_named(model):
    with pytest.raises(TypeError, match="`translate` has no option 'beams'. Expected some of attention, beam_size"):
        model.translate("One.", beams=3)


def test_a_coverage_penalty_needs_attention():
    with pytest.raises(ValueError, match="has no attention to cover its input with"):
        make_model(attention="none").translate("One.", coverage_penalty=0.2)


def test_samples_depend_on_their_seed_and_place_alone(model):
    options = {"temperature": 1.0, "n_best": 3, "seed": 5}
    together = model.translate(SENTENCES[:4], **options)
    small = model.translate(SENTENCES[:4], batch_tokens=1, **options)
    drawn = [[one.output, *(other.output for other in one.alternatives)] for one in together]
    assert drawn == [[one.output, *(other.output for other in one.alternatives)] for one in small]
    assert any(len(set(row)) > 1 for row in drawn)
    assert drawn != [[one.output] for one in model.translate(SENTENCES[:4], temperature=1.0, seed=6)]
    for one in together:
        scores = [one.score, *(other.score for other in one.alternatives)]
        assert scores == sorted(scores, reverse=True)


def test_what_is_forbidden_does_not_come(model):
    free = model.translate(SENTENCES, beam_size=2, attention=False)
    for one in model.translate(SENTENCES, beam_size=2, no_repeat_ngram=1, min_length=5, max_length=20):
        pieces = one.attention[0].rows
        assert len(set(pieces)) == len(pieces) and 6 <= len(pieces) <= 20
    assert [one.output for one in free] == [one.output for one in model.translate(SENTENCES, beam_size=2)]


def test_given_outputs_get_the_probability_that_the_loss_says(model):
    found = model.force(BATCH["source"], BATCH["target"])
    total, _ = model.loss_terms(BATCH, training=False)
    np.testing.assert_allclose(tf.reduce_sum(found.log_probability), -float(total), rtol=1e-4)
    np.testing.assert_array_equal(found.ids[:, 0], BATCH["target"])
    np.testing.assert_allclose(tf.reduce_sum(found.attention[1, 0], -1), [1, 1, 1, 1], atol=1e-5)
    np.testing.assert_array_equal(found.attention[2, 0, 1:], 0)


def test_n_best_widens_the_beam_where_none_is_given(model):
    assert len(model.translate(SENTENCES[2], n_best=4).alternatives) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"units": 0}, "`units` must be an int >= 1. Received 0"),
        ({"units": 15}, "`units` must be even"),
        ({"cell": "rnn"}, "`cell` must be one of 'gru', 'lstm'"),
        ({"dropout": 1.0}, r"`dropout` must be a number in \[0, 1\)"),
        ({"score": "cosines"}, "Unknown score 'cosines'"),
        ({"score": "concat"}, "give its width as `units`"),
        ({"feed": "everything"}, "`feed` must be one of"),
        ({"tie_embeddings": True}, "`tie_embeddings` must be one of"),
        ({"bidirectional": 1}, "`bidirectional` must be true or false"),
        ({"hidden": 3}, "Unknown key 'hidden'"),
        ({"unit": 3}, "Did you mean 'units'"),
        ({"attention": "soft"}, "`attention` must be one of 'none', 'luong'"),
        ({"attention": "local"}, "`attention_options` {} do not fit LocalAttention"),
        ({"attention": "local", "attention_options": {"radius": 0}}, "`radius` must be an int > 0"),
        ({"attention_options": [3]}, "`attention_options` must be a dict"),
        ({"order": "first"}, "`order` must be one of 'luong', 'bahdanau', 'conditional'"),
        ({"wiring": "none"}, "`wiring` must be one of 'context'"),
        ({"encoder_context": "all"}, "`encoder_context` must be one of"),
        ({"layer_normalization": 1}, "`layer_normalization` must be true or false"),
    ],
)
def test_a_bad_configuration_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        TranslationConfig.from_dict({"vocabulary_size": 50, "embedding_dim": 4, "units": 8, **change})


def test_a_missing_setting_is_named():
    with pytest.raises(ValueError, match="lacks embedding_dim, units"):
        TranslationConfig.from_dict({"vocabulary_size": 50})


def test_the_configuration_is_frozen_and_survives_its_dict():
    config = TranslationConfig(50, 4, 8, score="concat", score_units=3)
    assert TranslationConfig.from_dict(config.to_dict()) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.units = 10


def test_a_tokenizer_that_does_not_fit_is_refused(model):
    with pytest.raises(ValueError, match="tokenizer has 160 pieces.*vocabulary_size=99"):
        TranslationModel({**model.config.to_dict(), "vocabulary_size": 99}, model.tokenizer)


def test_a_model_without_a_tokenizer_says_so(model):
    bare = TranslationModel(model.config)
    with pytest.raises(ValueError, match="has no tokenizer"):
        bare.translate("One.")
    assert list(bare.serving_functions()) == ["ids"]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_stays_near_single(model, policy):
    half = TranslationModel(model.config, model.tokenizer, dtype=policy)
    half.set_weights(model.get_weights())
    wanted = float(model.loss_terms(BATCH, training=False)[0])
    np.testing.assert_allclose(float(half.loss_terms(BATCH, training=False)[0]), wanted, rtol=0.03)
    assert half.encode(BATCH["source"])[0].value.dtype == policy.removeprefix("mixed_")
    assert all(weight.dtype == "float32" for weight in half.weights)


def test_a_keras_file_opens_in_a_fresh_process(model, tmp_path):
    model.save(tmp_path / "model.keras")
    wanted = model.translate(SENTENCES[0])
    program = (
        "import sys, keras, keras_attention.models.translation\n"
        "model = keras.models.load_model(sys.argv[1])\n"
        "print(repr((model.translate(sys.argv[2]).output, model.translate(sys.argv[2]).score)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "model.keras"), SENTENCES[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    output, score = eval(done.stdout.strip().splitlines()[-1])
    assert output == wanted.output
    np.testing.assert_allclose(score, wanted.score, rtol=1e-5)


def test_a_model_that_has_translated_can_be_saved_by_tensorflow(model, tmp_path):
    model.translate(SENTENCES[0])
    module = tf.Module()
    module.model = model
    function = model.serving_functions()["ids"].get_concrete_function()
    tf.saved_model.save(module, tmp_path / "saved", signatures={"ids": function})
    assert list(tf.saved_model.load(tmp_path / "saved").signatures) == ["ids"]


def test_validation_has_no_label_smoothing():
    model = make_model(label_smoothing=0.3)
    model.compile("adam")
    total, count = model.loss_terms(BATCH, training=False)
    found = model.evaluate(tf.data.Dataset.from_tensors(BATCH), verbose=0)
    np.testing.assert_allclose(found, float(total) / float(count), rtol=1e-5)


def test_layers_have_names(model):
    for name in ("encoder", "decoder", "target_embedding", "output_projection"):
        assert model.get_layer(name).name == name


def test_batches_keep_to_the_budget_and_hold_everything_once():
    lengths = [5, 1, 9, 3, 3, 40, 2]
    batches = budget_batches(lengths, 18)
    assert sorted(place for batch in batches for place in batch) == list(range(7))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= 18
    np.testing.assert_array_equal(pad_rows([[1], [2, 3]]), [[1, 0], [2, 3]])

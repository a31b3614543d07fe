from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention import zoo
from keras_attention.models import TransformerConfig, TransformerTranslationModel
from keras_attention.models.transformer import sinusoids
from keras_attention.text import SentencePieceTokenizer
from tests.tiny import METADATA, PAIRS, VOCABULARY_SIZE

BATCH = {
    "source": tf.constant([[9, 8, 7, 6, 3], [5, 3, 0, 0, 0], [11, 12, 3, 0, 0]], tf.int32),
    "target": tf.constant([[20, 21, 3, 0], [30, 31, 32, 3], [3, 0, 0, 0]], tf.int32),
}
SENTENCES = [source for source, _ in PAIRS]


def make_model(**config):
    tokenizer = SentencePieceTokenizer.train([text for pair in PAIRS for text in pair], VOCABULARY_SIZE)
    settings = {"embedding_dim": 12, "feed_forward_units": 20, "num_heads": 3, "num_layers": 2, "max_length": 32}
    model = TransformerTranslationModel({"vocabulary_size": VOCABULARY_SIZE, **settings, **config}, tokenizer)
    generator = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.4, weight.shape).astype(np.float16).astype(np.float32))
    return model


@pytest.fixture(scope="module")
def model():
    return make_model()


VARIANTS = {
    "plain": {},
    "additive": {"score": "additive", "score_units": 5},
    "sparse": {"alignment": "entmax15"},
    "untied": {"tie_embeddings": "none"},
}
each_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())


def test_positions_are_those_of_the_paper():
    found = sinusoids(tf.constant([[0, 1, 50]]), 6).numpy()
    for column, place in enumerate([0, 1, 50]):
        for pair in range(3):
            angle = place / 10000 ** (2 * pair / 6)
            np.testing.assert_allclose(
                found[0, column, 2 * pair : 2 * pair + 2], [np.sin(angle), np.cos(angle)], atol=1e-5
            )


@each_variant
def test_steps_give_the_teacher_forced_logits(settings):
    model = make_model(**settings)
    memory, states = model.encode(BATCH["source"])
    step, state = model.stepper(memory), model.decoder.initial_state(states, memory)
    previous, logits = tf.fill([3], model.start_id), model(BATCH).numpy()
    for place in range(4):
        found, weights, state = step(previous, state)
        assert weights.shape == (3, 2 * 3 * 5)
        by_head = tf.reshape(weights, [3, 6, 5]).numpy()
        np.testing.assert_allclose(by_head.sum(-1), 1, atol=1e-5)
        assert (by_head[1, :, 2:] == 0).all()
        np.testing.assert_allclose(found[:, 4:], logits[:, place, 4:], atol=1e-4)
        previous = BATCH["target"][:, place]


@each_variant
def test_every_weight_learns(settings):
    model = make_model(**settings)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(BATCH, training=True)
    gradients = tape.gradient(loss, [one.value for one in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), weight.path
        # a bias of the keys adds the same to all scores of a row, which softmax cancels
        if not ("key/bias" in weight.path and settings.get("score", "scaled_dot") == "scaled_dot"):
            assert np.abs(dense).max() > 0, weight.path


def test_padding_changes_no_loss(model):
    wider = {name: tf.pad(ids, [[0, 0], [0, 3]]) for name, ids in BATCH.items()}
    wanted = model.loss_terms(BATCH, training=False)[0]
    np.testing.assert_allclose(model.loss_terms(wider, training=False)[0], wanted, rtol=1e-5)


def test_a_token_sees_none_after_it(model):
    changed = {**BATCH, "target": tf.concat([BATCH["target"][:, :2], [[50, 51]] * 3], axis=1)}
    np.testing.assert_allclose(model(changed)[:, :3], model(BATCH)[:, :3], atol=1e-5)
    assert not np.allclose(model(changed)[:, 3], model(BATCH)[:, 3], atol=1e-3)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_alone_equals_the_sentence_in_a_batch(model, beam_size):
    together = model.translate(SENTENCES[:4], beam_size=beam_size)
    for sentence, one in zip(SENTENCES[:4], together, strict=True):
        alone = model.translate(sentence, beam_size=beam_size)
        assert alone.output == one.output
        assert [kind.name for kind in alone.attention] == ["decoder_0", "decoder_1"]
        for kind, other in zip(alone.attention, one.attention, strict=True):
            assert kind.axes == ("head",) and kind.weights.shape[0] == 3
            assert len(kind.columns) == len(model.vectorize({"source": sentence})["source"])
            np.testing.assert_allclose(kind.weights, other.weights, atol=1e-5)
            np.testing.assert_allclose(kind.weights.sum(-1), 1, atol=1e-5)


def test_given_outputs_get_the_probability_that_the_loss_says(model):
    found = model.force(BATCH["source"], BATCH["target"])
    total, _ = model.loss_terms(BATCH, training=False)
    np.testing.assert_allclose(tf.reduce_sum(found.log_probability), -float(total), rtol=1e-4)


def test_dropout_acts_in_training_only():
    model = make_model(dropout=0.3, attention_dropout=0.2, embedding_dropout=0.1)
    quiet = [float(model.loss_terms(BATCH, training=False)[0]) for _ in range(2)]
    noisy = [float(model.loss_terms(BATCH, training=True)[0]) for _ in range(2)]
    assert quiet[0] == quiet[1]
    assert noisy[0] != noisy[1]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_stays_near_single(model, policy):
    half = TransformerTranslationModel(model.config, model.tokenizer, dtype=policy)
    half.set_weights(model.get_weights())
    wanted = float(model.loss_terms(BATCH, training=False)[0])
    np.testing.assert_allclose(float(half.loss_terms(BATCH, training=False)[0]), wanted, rtol=0.05)


def test_a_preset_gives_the_same_model(model, tmp_path):
    zoo.save(model, tmp_path / "preset", METADATA)
    again = zoo.load(tmp_path / "preset")
    assert again.family == "transformer_translation"
    wanted, found = (one.translate(SENTENCES[:3], beam_size=2) for one in (model, again))
    assert [one.output for one in found] == [one.output for one in wanted]


def test_fit_lowers_the_loss():
    model = make_model()
    model.compile(keras.optimizers.Adam(0.003))
    data = tf.data.Dataset.from_tensors(BATCH).repeat(12)
    losses = [model.fit(data, shuffle=False, verbose=0).history["loss"][-1] for _ in range(2)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "`embedding_dim` must be even and a multiple of num_heads=5"),
        ({"num_layers": 0}, "`num_layers` must be an int >= 1"),
        ({"dropout": 1}, r"`dropout` must be a number in \[0, 1\)"),
        ({"score": "dots"}, "Unknown score 'dots'"),
        ({"alignment": "hardmax"}, "hardmax"),
        ({"units": 3}, "Unknown key 'units'"),
        ({"length_penalty": -1.0}, "`length_penalty` must be a number >= 0"),
    ],
)
def test_a_bad_configuration_is_named(change, message):
    good = {"vocabulary_size": 50, "embedding_dim": 12, "feed_forward_units": 8, "num_heads": 2, "num_layers": 1}
    with pytest.raises(ValueError, match=message):
        TransformerConfig.from_dict({**good, **change})

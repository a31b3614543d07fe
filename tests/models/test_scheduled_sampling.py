"""Scheduled sampling: how likely the true token is fed, what is fed instead, and what a run keeps of it."""

from __future__ import annotations

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.models import TransformerConfig, TranslationConfig, TranslationModel, preset
from keras_attention.models.scheduled_sampling import ScheduledSampling, check_schedule, gold_probability
from keras_attention.training import Recipe, checkpoints, session
from tests.models.test_translation import BATCH
from tests.tiny import PAIRS, make_model

ALWAYS_TRUE = {"decay": "linear", "slope": 0.0}
NEVER_TRUE = {"decay": "linear", "start": 0.0, "slope": 0.0}
DECODERS = {
    **{order: {"order": order} for order in ("luong", "bahdanau", "conditional")},
    "context_fed": {"feed": "context", "layer_normalization": True},
    "nothing_fed": {"feed": "nothing"},
    "coverage": {"attention": "coverage", "score_units": 5},
    "context_token": {"attention": "none", "wiring": "context_token"},
    "states": {"attention": "none", "wiring": "states"},
    "one_hot": {"source_embeddings": "one_hot", "target_embeddings": "one_hot", "tie_embeddings": "none"},
}
each_decoder = pytest.mark.parametrize("settings", DECODERS.values(), ids=DECODERS.keys())


def reference(schedule, i):
    """Bengio et al., 2015, section 2.4."""
    if schedule["decay"] == "linear":
        return max(schedule.get("end", 0.0), schedule.get("start", 1.0) - schedule["slope"] * i)
    if schedule["decay"] == "exponential":
        return schedule["base"] ** i
    return schedule["k"] / (schedule["k"] + np.exp(i / schedule["k"]))


@pytest.mark.parametrize(
    "schedule",
    [
        {"decay": "linear", "start": 0.9, "slope": 0.01, "end": 0.25},
        {"decay": "linear", "slope": 0.003},
        {"decay": "exponential", "base": 0.97},
        {"decay": "inverse_sigmoid", "k": 20},
    ],
)
def test_the_probability_falls_as_in_the_paper(schedule):
    layer = ScheduledSampling(schedule)
    layer.build()
    for step in (0, 1, 7, 50, 200, 1000):
        wanted = reference(schedule, step)
        np.testing.assert_allclose(gold_probability(check_schedule(schedule), step), wanted, rtol=1e-4, atol=1e-7)
        layer.step.assign(step)
        np.testing.assert_allclose(layer.probability, wanted, rtol=1e-4, atol=1e-7)
    assert 0 <= float(gold_probability(check_schedule(schedule), 10**6)) <= 0.25


def test_the_share_of_true_tokens_is_the_probability():
    keras.utils.set_random_seed(5)
    layer = ScheduledSampling({"decay": "linear", "slope": 0.3, "end": 0.1})
    layer.build()
    for step, wanted in enumerate((1.0, 0.7, 0.4, 0.1, 0.1)):
        assert int(layer.step) == step
        coins = layer.coins(200, 101).numpy()
        assert coins[:, 0].all()  # before the first token nothing was written
        assert abs(coins[:, 1:].mean() - wanted) < 0.015


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@each_decoder
def test_true_tokens_alone_give_the_teacher_forced_loss(settings, cell):
    common = {"cell": cell, "num_layers": 2, **settings}
    sampled, plain = make_model(scheduled_sampling=ALWAYS_TRUE, **common), make_model(**common)
    sampled.set_weights([*plain.get_weights(), np.int32(0)])
    found, _ = sampled.loss_terms(BATCH, training=True)
    np.testing.assert_allclose(found, plain.loss_terms(BATCH, training=True)[0], rtol=1e-5)


@each_decoder
def test_what_is_drawn_is_fed_to_the_next_step(settings):
    model = make_model(scheduled_sampling=NEVER_TRUE, num_layers=2, **{"tie_embeddings": "none", **settings})
    model.output_kernel.assign(10_000 * model.output_kernel)  # so sure of itself that a draw is the most probable token
    found = model(BATCH, training=True).numpy()
    memory, states = model.encode(BATCH["source"])
    step, state = model.stepper(memory), model.decoder.initial_state(states, memory)
    previous, fed = tf.fill([3], model.start_id), []
    for place in range(BATCH["target"].shape[1]):
        logits, _, state = step(previous, state)
        np.testing.assert_allclose(found[:, place], logits, rtol=1e-3, atol=1)
        previous = tf.argmax(logits, axis=-1, output_type=tf.int32)
        fed.append(previous.numpy())
    assert not np.array_equal(np.stack(fed[:-1], 1), BATCH["target"][:, :-1])


def test_draws_follow_the_distribution_of_the_model():
    keras.utils.set_random_seed(1)
    layer = ScheduledSampling(NEVER_TRUE)
    layer.build()
    rows, probability = 4000, np.array([0.1, 0.2, 0.7], np.float32)
    drawn = layer.decode(
        step=lambda embedded, state: (embedded, state),
        gold=tf.zeros([rows, 3, 3]),
        noise=tf.ones([rows, 3, 3]),
        embed=lambda ids: tf.one_hot(ids, 3),
        logits=lambda output: tf.zeros_like(output) + tf.math.log(probability),
        state=tf.zeros([rows, 1]),
    ).numpy()
    np.testing.assert_array_equal(drawn[:, 0], 0)
    for place in (1, 2):
        np.testing.assert_allclose(drawn[:, place].mean(0), probability, atol=0.03)
    assert 0.3 < (drawn[:, 1].argmax(-1) == drawn[:, 2].argmax(-1)).mean() < 0.75  # anew at each place


@pytest.mark.parametrize("order", ["luong", "bahdanau", "conditional"])
def test_every_weight_learns_from_a_mixture(order):
    half = {"decay": "linear", "start": 0.5, "slope": 0.0}
    model = make_model(order=order, scheduled_sampling=half, num_layers=2, dropout=0.2, embedding_dropout=0.2)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(BATCH, training=True)
    gradients = tape.gradient(loss, [one.value for one in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all() and np.abs(dense).max() > 0, weight.path


def test_it_is_there_in_training_alone():
    model, plain = make_model(scheduled_sampling=NEVER_TRUE), make_model()
    assert plain.sampling is None and len(plain.weights) == len(model.weights) - 1
    model.set_weights([*plain.get_weights(), np.int32(0)])
    np.testing.assert_allclose(model.loss_terms(BATCH, False)[0], plain.loss_terms(BATCH, False)[0], rtol=1e-6)
    assert model.translate("Where?").output == plain.translate("Where?").output
    assert int(model.sampling.step) == 0
    for _ in range(3):
        model.loss_terms(BATCH, training=True)
    assert int(model.sampling.step) == 3


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_fit_counts_its_steps_in_the_graph(policy):
    tiny = make_model(scheduled_sampling={"decay": "exponential", "base": 0.9})
    model = TranslationModel(tiny.config, tiny.tokenizer, dtype=policy)
    model.compile(keras.optimizers.Adam(0.01))
    losses = model.fit(tf.data.Dataset.from_tensors(BATCH).repeat(8), epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(losses.history["loss"]).all()
    assert int(model.sampling.step) == 16
    np.testing.assert_allclose(model.sampling.probability, 0.9**16, rtol=1e-4)


def test_the_steps_of_a_long_training_survive_a_preset_and_a_keras_file(tmp_path):
    model = make_model(scheduled_sampling={"decay": "inverse_sigmoid", "k": 3000})
    model.sampling.step.assign(123_457)  # more than half precision can count
    copy = preset.load(preset.save(model, tmp_path / "preset"))
    assert int(copy.sampling.step) == 123_457
    np.testing.assert_array_equal(copy(BATCH), model(BATCH))
    model.save(tmp_path / "model.keras")
    assert int(keras.models.load_model(tmp_path / "model.keras").sampling.step) == 123_457


def test_a_training_that_goes_on_counts_on(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": one, "target": two}) + "\n" for one, two in PAIRS), "utf-8")
    values = {
        "version": 1,
        "family": "translation",
        "model": {"embedding_dim": 6, "units": 8, "scheduled_sampling": {"decay": "exponential", "base": 0.8}},
        "tokenizer": {"vocabulary_size": 80},
        "training": {"steps": 2, "batch_size": 8},
    }
    for steps in (2, 3):
        values["training"]["steps"] = steps
        session.train(Recipe.from_dict(values), tmp_path / "run", [path], [path])
        tensors, state, _ = checkpoints.Checkpoints(tmp_path / "run" / "checkpoints").newest()
        (counted,) = [value for name, value in tensors.items() if name.endswith("scheduled_sampling/step")]
        assert int(counted) == state["step"] == steps


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"decay": "cosine"}, "must be a dict whose `decay` is one of 'linear', 'exponential', 'inverse_sigmoid'"),
        ("linear", "must be a dict whose `decay`"),
        ({"decay": "linear"}, "with the decay 'linear' lacks `slope`"),
        ({"decay": "linear", "slope": -1}, "`scheduled_sampling.slope` must be a number >= 0. Received -1"),
        ({"decay": "linear", "slope": 0.1, "end": 2}, "`scheduled_sampling.end` must be at most 1. Received 2"),
        ({"decay": "exponential", "base": 1.5}, "`scheduled_sampling.base` must be at most 1. Received 1.5"),
        ({"decay": "exponential", "k": 0.5}, "unknown key 'k'. Expected decay, base with the decay 'exponential'"),
        ({"decay": "inverse_sigmoid", "k": 0.5}, "`scheduled_sampling.k` must be a number >= 1"),
    ],
)
def test_a_schedule_that_is_none_is_named(schedule, message):
    with pytest.raises(ValueError, match=message):
        TranslationConfig(50, 4, 8, scheduled_sampling=schedule)


@pytest.mark.parametrize("wiring", ["context", "start"])
def test_a_decoder_that_reads_no_token_has_nothing_to_sample(wiring):
    with pytest.raises(ValueError, match=f"the wiring '{wiring}' feeds none"):
        TranslationConfig(50, 4, 8, attention="none", wiring=wiring, scheduled_sampling=ALWAYS_TRUE)


def test_a_transformer_refuses_it():
    settings = {"vocabulary_size": 50, "embedding_dim": 4, "feed_forward_units": 4, "num_heads": 2, "num_layers": 1}
    assert "scheduled_sampling" not in {one.name for one in dataclasses.fields(TransformerConfig)}
    with pytest.raises(ValueError, match="a Transformer is trained on all steps at once. Leave it out"):
        TransformerConfig.from_dict({**settings, "scheduled_sampling": ALWAYS_TRUE})

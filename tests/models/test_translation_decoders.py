"""Every decoder of the family `translation`: three orders with attention, any mechanism, five wirings without."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.models.test_translation import BATCH, SENTENCES
from tests.tiny import make_model

DECODERS = {
    **{
        f"{wiring}_{context}": {"attention": "none", "wiring": wiring, "encoder_context": context}
        for wiring, context in [
            ("context", "last"),
            ("start", "projected_last"),
            ("context_token", "projected_all"),
            ("states", "last"),
            ("states_context", "projected_all"),
        ]
    },
    **{
        f"{order}_{feed}": {"order": order, "feed": feed}
        for order in ("bahdanau", "conditional")
        for feed in ("nothing", "context", "attentional")
    },
    "luong_normalized": {"layer_normalization": True},
    "bahdanau_additive": {"attention": "bahdanau", "score_units": 5, "order": "bahdanau", "layer_normalization": True},
    "local": {"attention": "local", "attention_options": {"radius": 2}},
    "local_monotonic": {"attention": "local", "attention_options": {"radius": 2, "position": "monotonic"}},
    "hard": {"attention": "hard", "attention_options": {"sample": "straight_through"}},
    "location": {"attention": "location", "attention_options": {"max_length": 40}},
    "coverage": {"attention": "coverage", "score_units": 5},
    "monotonic": {
        "attention": "monotonic",
        "score": "additive",
        "score_units": 5,
        "attention_options": {"noise": 0.0, "inference": "expected"},
    },
    "location_aware": {"score": "location_aware", "score_units": 5},
    "multi_dim": {"attention": "multi_dim", "score_units": 5},
}
each_decoder = pytest.mark.parametrize("settings", DECODERS.values(), ids=DECODERS.keys())


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@each_decoder
def test_every_weight_of_every_decoder_learns(settings, cell):
    model = make_model(cell=cell, num_layers=2, tie_embeddings="none", **settings)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(BATCH, training=True)
    gradients = tape.gradient(loss, [one.value for one in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        if gradient is None:
            # tokens are not fed back; no state behind the context is read; the layers of the encoder end in its values
            assert any(part in weight.path for part in unread(settings)), weight.path
            continue
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all() and np.abs(dense).max() > 0, weight.path


def test_the_temperature_of_hard_attention_falls_with_the_training_steps():
    cooling = {"class_name": "ExponentialTemperature", "config": {"start": 2.0, "end": 0.5, "rate": 0.1}}
    options = {"temperature": {"registered_name": "keras_attention>ExponentialTemperature", **cooling}}
    model = make_model(attention="hard", attention_options=options)
    for _ in range(3):
        model.loss_terms(BATCH, training=True)
    model.loss_terms(BATCH, training=False)
    np.testing.assert_allclose(model.decoder.attention.temperature, 2.0 * np.exp(-0.1 * 2), rtol=1e-5)


def unread(settings):
    """What of a model some wirings do not read."""
    return {"context": ["target_embedding"], "start": ["target_embedding"]}.get(settings.get("wiring"), [])


@each_decoder
def test_steps_of_every_decoder_give_its_teacher_forced_loss(settings):
    model = make_model(num_layers=2, **settings)
    memory, states = model.encode(BATCH["source"])
    step, state = model.stepper(memory), model.decoder.initial_state(states, memory)
    previous = tf.fill([3], model.start_id)
    logits = model(BATCH).numpy()
    for place in range(BATCH["target"].shape[1]):
        found, weights, state = step(previous, state)
        assert weights.shape == (3, 5 * len(model.decoder.maps))
        np.testing.assert_allclose(found[:, 4:], logits[:, place, 4:], atol=1e-4)
        previous = BATCH["target"][:, place]


@each_decoder
def test_padding_changes_no_loss_of_any_decoder(settings):
    model = make_model(num_layers=2, **settings)
    wider = {name: tf.pad(ids, [[0, 0], [0, 3]]) for name, ids in BATCH.items()}
    wanted = model.loss_terms(BATCH, training=False)[0]
    np.testing.assert_allclose(model.loss_terms(wider, training=False)[0], wanted, rtol=1e-5)


@each_decoder
def test_every_decoder_translates_with_its_maps(settings):
    model = make_model(**settings)
    together = model.translate(SENTENCES[:3], beam_size=2, n_best=2)
    alone = model.translate(SENTENCES[1], beam_size=2, n_best=2)
    assert alone.output == together[1].output
    assert len(alone.attention) == len(model.decoder.maps)
    for one in alone.attention:
        assert len(one.columns) == len(model.vectorize({"source": SENTENCES[1]})["source"])

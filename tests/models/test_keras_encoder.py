"""A Keras model of the user's own as the encoder, with a learnt mix of its layers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.models import TranslationModel, preset
from keras_attention.models.layer_mix import LayerMix
from tests.models.test_translation import BATCH, SENTENCES
from tests.tiny import MAX_LENGTH, VOCABULARY_SIZE, make_model

WIDTH = 10
SETTINGS = {"embedding_dim": 12, "units": 16, "max_length": MAX_LENGTH, "beam_size": 2, "tie_embeddings": "output"}
DECODERS = {
    "luong": {},
    "bahdanau_lstm": {"order": "bahdanau", "cell": "lstm", "num_layers": 2},
    "conditional": {"order": "conditional", "attention": "coverage", "score_units": 5},
    "states": {"attention": "none", "num_layers": 2, "cell": "lstm"},
    "mean": {"attention": "none", "wiring": "context_token", "encoder_context": "projected_all"},
    "last": {"attention": "none", "wiring": "start"},
}


def network(layers=3):
    """Embeddings and recurrent layers that do not look at padding; the states of each."""
    ids = keras.Input((None,), dtype="int32")
    states = [keras.layers.Embedding(VOCABULARY_SIZE, WIDTH, mask_zero=True)(ids)]
    for _ in range(layers - 1):
        states.append(keras.layers.GRU(WIDTH, return_sequences=True)(states[-1]))
    return keras.Model(ids, states if layers > 1 else states[0])


def model_with(encoder, seed=3, **settings):
    keras.utils.set_random_seed(seed)
    config = {"vocabulary_size": VOCABULARY_SIZE, **SETTINGS, **settings}
    model = TranslationModel(config, make_model().tokenizer, encoder=encoder)
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(generator.normal(0, 0.4, weight.shape))
    return model


def two_epochs(model):
    data = tf.data.Dataset.from_tensors(BATCH).repeat(8)
    return model.fit(data, epochs=2, shuffle=False, verbose=0).history["loss"]


def test_the_mix_is_the_one_of_the_paper():
    generator = np.random.default_rng(0)
    states, scores, gamma = generator.normal(size=(3, 2, 5, 7)), generator.normal(size=3), 1.7
    layer = LayerMix(dtype="float64")
    np.testing.assert_allclose(layer([tf.constant(one) for one in states]), states.mean(0), atol=1e-12)
    layer.set_weights([scores, np.float64(gamma)])
    shares = np.exp(scores) / np.exp(scores).sum()
    wanted = gamma * np.einsum("l,lbtd->btd", shares, states)
    np.testing.assert_allclose(layer([tf.constant(one) for one in states]), wanted, rtol=1e-6)


def test_layers_of_two_widths_do_not_mix():
    with pytest.raises(ValueError, match=r"All layers must have the same shape .* \(2, 5, 3\)\]"):
        LayerMix()([tf.zeros([2, 5, 7]), tf.zeros([2, 5, 3])])


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("settings", DECODERS.values(), ids=DECODERS.keys())
def test_every_weight_learns_with_it(settings, layers):
    model = model_with(network(layers), **settings)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_terms(BATCH, training=True)
    gradients = tape.gradient(loss, [one.value for one in model.trainable_weights])
    mixed = [weight.path for weight in model.trainable_weights if "mix" in weight.path]
    assert len(mixed) == (2 if layers > 1 else 0)
    unread = ["target_embedding"] * (settings.get("wiring") == "start")
    if settings.get("wiring"):  # the first states are not read: the bridges lead nowhere, but for that of c
        unread += ["encoder/state_"]
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        if gradient is None:
            assert any(part in weight.path for part in unread), weight.path
            continue
        assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, weight.path


@pytest.mark.parametrize("settings", DECODERS.values(), ids=DECODERS.keys())
def test_padding_changes_nothing(settings):
    model = model_with(network(), **settings)
    wider = {name: tf.pad(ids, [[0, 0], [0, 3]]) for name, ids in BATCH.items()}
    wanted = model.loss_terms(BATCH, training=False)[0]
    np.testing.assert_allclose(model.loss_terms(wider, training=False)[0], wanted, rtol=1e-5)


def test_the_first_states_come_from_the_mean_of_what_is_read():
    model = model_with(network(), cell="lstm", num_layers=2)
    values, states = model.encoder(BATCH["source"], mask=BATCH["source"] != 0)
    assert values.shape == (3, 5, WIDTH)
    mean = np.stack([values.numpy()[row, :length].mean(0) for row, length in enumerate((5, 2, 3))])
    for layer, bridges in zip(states, model.encoder.bridges, strict=True):
        assert len(layer) == 2
        for state, bridge in zip(layer, bridges, strict=True):
            wanted = np.tanh(mean @ bridge.kernel.numpy() + bridge.bias.numpy())
            np.testing.assert_allclose(state, wanted, rtol=1e-4, atol=1e-6)


def test_it_translates_and_learns(tmp_path):
    model = model_with(network())
    together = model.translate(SENTENCES[:3])
    assert model.translate(SENTENCES[1]).output == together[1].output
    assert list(together[0].attention[0].columns)[-1] == "</s>"
    model.compile(keras.optimizers.Adam(0.01))
    losses = two_epochs(model)
    assert losses[1] < losses[0]
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(copy(BATCH), model(BATCH), rtol=1e-5, atol=1e-6)
    assert copy.translate(SENTENCES[0]).output == model.translate(SENTENCES[0]).output


def test_a_frozen_network_stays_as_it_was():
    encoder = network()
    encoder.trainable = False
    model = model_with(encoder)
    before = [weight.numpy() for weight in encoder.weights]
    model.compile(keras.optimizers.SGD(0.1))
    model.fit(tf.data.Dataset.from_tensors(BATCH), shuffle=False, verbose=0)
    for weight, value in zip(encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert any("mix" in weight.path for weight in model.trainable_weights)


def test_a_network_in_single_precision_serves_a_model_in_half():
    config = {"vocabulary_size": VOCABULARY_SIZE, **SETTINGS}
    model = TranslationModel(config, make_model().tokenizer, encoder=network(), dtype="mixed_bfloat16")
    assert np.isfinite(float(model.loss_terms(BATCH, training=True)[0]))


def test_a_preset_refuses_it(tmp_path):
    with pytest.raises(preset.PresetError, match=r"has an `encoder` of your own, and a preset holds data only"):
        model_with(network()).save_to_preset(tmp_path / "preset")
    assert not (tmp_path / "preset").exists()


class Words(keras.Model):
    def call(self, inputs):
        return "states"


def flat():
    ids = keras.Input((None,), dtype="int32")
    return keras.Model(ids, keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(VOCABULARY_SIZE, 4)(ids)))


def two_widths():
    ids = keras.Input((None,), dtype="int32")
    return keras.Model(ids, [keras.layers.Embedding(VOCABULARY_SIZE, width)(ids) for width in (4, 6)])


@pytest.mark.parametrize(
    ("make", "settings", "kind", "message"),
    [
        (lambda: keras.layers.Embedding(5, 4), {}, TypeError, "must be a keras.Model .* Received Embedding; wrap it"),
        (flat, {}, ValueError, r"must give states \(B, Tv, D\).* It gave \[\(1, 4\)\] for ids \(1, 3\)"),
        (two_widths, {}, ValueError, r"of one width D. It gave \[\(1, 3, 4\), \(1, 3, 6\)\]"),
        (Words, {}, ValueError, "It gave str. Choose its outputs"),
        (network, {"tie_embeddings": "all"}, ValueError, "source are within an `encoder` of your own"),
    ],
)
def test_networks_that_give_no_states_are_refused(make, settings, kind, message):
    with pytest.raises(kind, match=message):
        model_with(make(), **settings)


def test_a_keras_hub_encoder_with_random_weights(tmp_path):
    hub = pytest.importorskip("keras_hub")
    backbone = hub.models.BertBackbone(
        vocabulary_size=VOCABULARY_SIZE, num_layers=2, num_heads=2, hidden_dim=12, intermediate_dim=16,
        max_sequence_length=MAX_LENGTH,
    )  # fmt: skip
    every_layer = keras.Model(
        backbone.inputs, [backbone.get_layer(f"transformer_layer_{number}").output for number in range(2)]
    )
    ids = keras.Input((None,), dtype="int32")
    mask = keras.ops.cast(keras.ops.not_equal(ids, 0), "int32")
    given = {"token_ids": ids, "segment_ids": keras.ops.zeros_like(ids), "padding_mask": mask}
    named = [given[one.name.split(":")[0]] for one in backbone.inputs]
    model = model_with(keras.Model(ids, every_layer(named)))
    assert any("mix" in weight.path for weight in model.trainable_weights)
    wider = {name: tf.pad(ids, [[0, 0], [0, 3]]) for name, ids in BATCH.items()}
    wanted = model.loss_terms(BATCH, training=False)[0]
    np.testing.assert_allclose(model.loss_terms(wider, training=False)[0], wanted, rtol=1e-4)
    model.compile(keras.optimizers.Adam(0.01))
    losses = two_epochs(model)
    assert losses[1] < losses[0]
    assert model.translate(SENTENCES[0]).attention

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.models.deep_attention import DeepAttention

B, T, E, D, HEADS, HIDDEN = 2, 5, 7, 6, 3, 4


def make_layer(nonlinear="feed_forward", num_layers=2, **options):
    layer = DeepAttention(D, num_layers, HEADS, nonlinear, HIDDEN, name="deep", **options)
    layer.build((None, None, E))
    generator = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(generator.normal(0, 0.5, weight.shape))
    return layer


def inputs(length=T, seed=4):
    return np.random.default_rng(seed).normal(size=(B, length, E))


def timing_signal(length, width):
    """Tan et al., 2018, section on the position encoding, channel by channel."""
    signal = np.zeros((length, width))
    for t in range(length):
        for i in range(width // 2):
            angle = t / 10000 ** (2 * i / width)
            signal[t, 2 * i], signal[t, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return signal


def norm(values, gamma, beta):
    centred = values - values.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + beta


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


class Paper:
    """The network of the paper over one sequence (T, E), in float64."""

    def __init__(self, layer):
        self.weights = {weight.path.split("deep/", 1)[1]: np.asarray(weight, np.float64) for weight in layer.weights}

    def __call__(self, row, layers, nonlinear):
        states = row @ self.weights["project/kernel"] + self.weights["project/bias"]
        states = states + timing_signal(len(row), states.shape[1])
        maps = []
        for number in range(layers):
            added = getattr(self, nonlinear)(states, number)
            states = self._norm(f"nonlinear_norm_{number}", states + added)
            added, weights = self.attend(states, number)
            states = self._norm(f"attention_norm_{number}", states + added)
            maps.append(weights)
        return states, maps

    def _norm(self, name, values):
        return norm(values, self.weights[f"{name}/gamma"], self.weights[f"{name}/beta"])

    def feed_forward(self, states, number):
        wide = states @ self.weights[f"widen_{number}/kernel"] + self.weights[f"widen_{number}/bias"]
        return np.maximum(wide, 0) @ self.weights[f"narrow_{number}/kernel"] + self.weights[f"narrow_{number}/bias"]

    def recurrent(self, states, number):
        forwards = self._lstm(states, f"recurrent_{number}/forward")
        return forwards + self._lstm(states[::-1], f"recurrent_{number}/backward")[::-1]

    def _lstm(self, states, name):
        def weight(end):
            (found,) = [one for path, one in self.weights.items() if path.startswith(name) and path.endswith(end)]
            return found

        hidden, cell, found = np.zeros(D), np.zeros(D), []
        for value in states:
            gates = value @ weight("/kernel") + hidden @ weight("/recurrent_kernel") + weight("/bias")
            enters, forgets, candidate, leaves = np.split(gates, 4)
            cell = sigmoid(forgets) * cell + sigmoid(enters) * np.tanh(candidate)
            hidden = sigmoid(leaves) * np.tanh(cell)
            found.append(hidden)
        return np.array(found)

    def attend(self, states, number):
        def project(name):
            kernel, bias = (self.weights[f"attention_{number}/{name}/{part}"] for part in ("kernel", "bias"))
            return np.einsum("td,dhk->htk", states, kernel) + bias[:, None]

        query, key, value = (project(name) for name in ("query", "key", "value"))
        score = np.einsum("hqk,hvk->hqv", query, key) / np.sqrt(D // HEADS)
        weights = np.exp(score) / np.exp(score).sum(-1, keepdims=True)
        context = np.einsum("hqv,hvk->qhk", weights, value)
        kernel, bias = (self.weights[f"attention_{number}/attention_output/{part}"] for part in ("kernel", "bias"))
        return np.einsum("qhk,hkd->qd", context, kernel) + bias, weights


@pytest.mark.parametrize("nonlinear", ["feed_forward", "recurrent"])
def test_states_and_weights_are_those_of_the_paper(nonlinear):
    layer, rows = make_layer(nonlinear), inputs()
    states, maps = layer(tf.constant(rows, tf.float32), return_weights=True)
    paper = Paper(layer)
    for number, row in enumerate(rows):
        wanted, weights = paper(row, 2, nonlinear)
        np.testing.assert_allclose(states[number], wanted, atol=2e-5)
        for found, one in zip(maps, weights, strict=True):
            np.testing.assert_allclose(found[number], one, atol=1e-5)


@pytest.mark.parametrize("nonlinear", ["feed_forward", "recurrent"])
def test_padding_changes_nothing_whatever_it_holds(nonlinear):
    layer, rows = make_layer(nonlinear), inputs()
    wide = np.concatenate([rows, inputs(3, seed=9) * 10], axis=1)
    mask = np.arange(T + 3) < T
    states, maps = layer(tf.constant(wide, tf.float32), mask=tf.constant([mask] * B), return_weights=True)
    wanted, _ = layer(tf.constant(rows, tf.float32))
    np.testing.assert_allclose(states[:, :T], wanted, atol=1e-5)
    assert np.abs(maps[0][:, :, :, T:]).max() == 0


@pytest.mark.parametrize("nonlinear", ["feed_forward", "recurrent"])
def test_every_weight_learns(nonlinear):
    layer = make_layer(nonlinear, dropout=0.1, attention_dropout=0.1)
    with tf.GradientTape() as tape:
        states, maps = layer(tf.constant(inputs(), tf.float32), training=True)
        loss = tf.reduce_sum(states[:, :, 0] ** 3)
    assert maps == []
    gradients = tape.gradient(loss, [weight.value for weight in layer.trainable_weights])
    for weight, gradient in zip(layer.trainable_weights, gradients, strict=True):
        largest = np.abs(gradient.numpy()).max()
        assert np.isfinite(largest)
        if not weight.path.endswith("key/bias"):  # adds the same to all scores of a query: no weight depends on it
            assert largest > 0, weight.path

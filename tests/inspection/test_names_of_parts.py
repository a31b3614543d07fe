"""The layers of the library that give several weights name each."""

from __future__ import annotations

import keras
import numpy as np
from keras import ops

from keras_attention import attention_maps
from keras_attention.layers import AttentionOverAttention, HierarchicalAttention


def test_words_and_sentences_of_a_document():
    layer = HierarchicalAttention(units=4, name="han")
    inputs = keras.Input((3, 5, 6))
    model = keras.Model(inputs, layer(inputs))
    document = np.random.default_rng(0).normal(size=(2, 3, 5, 6)).astype("float32")
    _, words, sentences = layer(document, return_attention_scores=True)
    maps = attention_maps(model, document)
    assert [one.name for one in maps[1]] == ["han/words", "han/sentences"]
    np.testing.assert_allclose(maps[1][0].weights, ops.convert_to_numpy(words)[1], atol=1e-6)
    np.testing.assert_allclose(maps[1][1].weights, ops.convert_to_numpy(sentences)[1:2], atol=1e-6)


def test_both_attentions_of_attention_over_attention():
    layer = AttentionOverAttention(name="aoa")
    document, query = keras.Input((5, 6)), keras.Input((3, 6))
    model = keras.Model([document, query], layer([document, query]))
    random = np.random.default_rng(0)
    inputs = [random.normal(size=(2, length, 6)).astype("float32") for length in (5, 3)]
    _, alpha, beta = layer(inputs, return_attention_scores=True)
    maps = attention_maps(model, inputs)
    assert [one.name for one in maps[0]] == ["aoa/alpha", "aoa/beta"]
    np.testing.assert_allclose(maps[0][0].weights, ops.convert_to_numpy(alpha)[0], atol=1e-6)
    np.testing.assert_allclose(maps[0][1].weights, ops.convert_to_numpy(beta)[0:1], atol=1e-6)

"""`HierarchicalAttention`, without encoders and with those of its paper."""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from keras_attention.layers import HierarchicalAttention, MaxPooling, MeanPooling
from tests import reference
from tests.layers.case import Case
from tests.layers.cases.attentive_pooling import yang
from tests.layers.cases.max_pooling import highest
from tests.layers.cases.mean_pooling import mean

DIM, UNITS, STATE = 6, 8, 4
LEVELS = ("word", "sentence")


def call(layer, arrays, masks, **more):
    """A sentence is padding where all its words are: the two masks go in as one."""
    words, sentences = masks.get("words"), masks.get("sentences")
    mask = words
    if sentences is not None:
        mask = ops.expand_dims(sentences, -1)
        everywhere = ops.ones_like(arrays["documents"][..., 0], dtype="bool")
        mask = ops.logical_and(mask, everywhere if words is None else words)
    context, of_words, of_sentences = layer(arrays["documents"], mask=mask, return_attention_scores=True, **more)
    return {"context": context, "word_weights": of_words, "sentence_weights": of_sentences}


def below(weights, part):
    """The weights of one part of the layer, by what its path says from there."""
    found = {path.split(f"/{part}/")[1]: value for path, value in weights.items() if f"/{part}/" in path}
    assert found, f"nothing below {part}"
    return found


def attended(rows, kept, weights):
    """Yang et al., 2016, equations 5 to 7, and alike 8 to 10: rows (T, D) → a vector and the weights (T,)."""
    alpha = reference.masked_softmax(np.array([yang(row, weights) for row in rows]), kept)
    return sum(share * row for share, row in zip(alpha, rows, strict=True)), alpha


def gru(rows, weights):
    """Yang et al., 2016, equations 1 to 4, over the words there are: rows (T, D) → states (T, STATE).

    Keras' z is one minus the paper's, its b comes once for the inputs and once for the states.
    """
    kernel, recurrent, (bias, state_bias) = (weights[name] for name in ("kernel", "recurrent_kernel", "bias"))
    state, states = np.zeros(STATE), []
    for row in rows:
        given, held = kernel.T @ row + bias, recurrent.T @ state + state_bias
        z = 1 / (1 + np.exp(-(given + held)[:STATE]))
        r = 1 / (1 + np.exp(-(given + held)[STATE : 2 * STATE]))
        candidate = np.tanh(given[2 * STATE :] + r * held[2 * STATE :])
        state = z * state + (1 - z) * candidate
        states.append(state)
    return np.array(states)


def both_ways(rows, kept, weights):
    """A bidirectional GRU over the kept rows; 0 elsewhere."""
    encoded = np.zeros((len(rows), 2 * STATE))
    forward, backward = (
        {path.split("/")[-1]: value for path, value in weights.items() if path.startswith(way)}
        for way in ("forward_", "backward_")
    )
    if kept.any():
        encoded[kept, :STATE] = gru(rows[kept], forward)
        encoded[kept, STATE:] = gru(rows[kept][::-1], backward)[::-1]
    return encoded


def hierarchy(read, recurrent=False):
    """The reference: level by level, sentence by sentence. `read`: level → rows, kept, weights → vector, weights."""

    def encoded(level, rows, kept, weights):
        return both_ways(rows, kept, below(weights, f"{level}_encoder")) if recurrent else rows

    def of(arrays, masks, weights):
        documents, words = arrays["documents"], masks["words"] & masks["sentences"][..., None]
        outputs = {"word_weights": np.zeros(words.shape), "sentence_weights": np.zeros(words.shape[:2])}
        contexts = []
        for b, document in enumerate(documents):
            vectors = []
            for s, sentence in enumerate(document):
                rows = encoded("word", sentence, words[b, s], weights)
                vector, outputs["word_weights"][b, s] = read["word"](rows, words[b, s], weights)
                vectors.append(vector)
            kept = words[b].any(-1)
            rows = encoded("sentence", np.array(vectors), kept, weights)
            vector, outputs["sentence_weights"][b] = read["sentence"](rows, kept, weights)
            contexts.append(vector)
        return {"context": np.array(contexts), **outputs}

    return of


def attentively(level):
    return lambda rows, kept, weights: attended(rows, kept, below(weights, f"{level}_pooling"))


def plainly(pooling):
    """One row of a reference of `max_pooling.py` or `mean_pooling.py`."""

    def read(rows, kept, weights):
        found = pooling({"sequence": rows[None]}, {"kept": kept[None]}, weights)
        return found["context"][0], found["weights"][0]

    return read


ATTENTIVELY = {level: attentively(level) for level in LEVELS}
SHAPES = {
    "layer": HierarchicalAttention,
    "sizes": {"batch": 2, "sentences": 3, "words": 5},
    "arrays": {"documents": ("batch", "sentences", "words", DIM)},
    "masks": {"words": ("batch", "sentences", "words"), "sentences": ("batch", "sentences")},
    "weights": {"word_weights": ("batch", "sentences", "words"), "sentence_weights": ("batch", "sentences")},
    "looks_at": {"word_weights": "words", "sentence_weights": "sentences"},
    "asked_by": {"word_weights": "sentences"},
    "call": call,
}


@dataclass(frozen=True)
class RecurrentCase(Case):
    """Each layer gets encoders of its own, of its own precision."""

    def make(self, **more):
        encoders = {f"{level}_encoder": encoder(f"{level}_encoder", more.get("dtype")) for level in LEVELS}
        return super().make(**{**encoders, **more})


def encoder(name, dtype):
    one = keras.layers.GRU(STATE, return_sequences=True, dtype=dtype, name="gru")
    return keras.layers.Bidirectional(one, dtype=dtype, name=name)


@dataclass(frozen=True)
class PlainCase(Case):
    """Each layer gets poolings of its own, of its own precision."""

    def make(self, **more):
        dtype = more.get("dtype")
        poolings = {
            "word_pooling": MaxPooling(name="word_pooling", dtype=dtype),
            "sentence_pooling": MeanPooling(name="sentence_pooling", dtype=dtype),
        }
        return super().make(**{**poolings, **more})


CASES = [
    Case(
        name="hierarchical_attention",
        options={"units": UNITS},
        outputs={"context": ("batch", DIM)},
        reference=hierarchy(ATTENTIVELY),
        **SHAPES,
    ),
    RecurrentCase(
        name="hierarchical_attention_recurrent",
        options={"units": UNITS},
        outputs={"context": ("batch", 2 * STATE)},
        reference=hierarchy(ATTENTIVELY, recurrent=True),
        left_out={
            "permutation": "its encoders read in order",
            "tflite of any lengths": "Keras' GRU keeps its outputs in lists, which must know their lengths there",
        },
        **SHAPES,
    ),
    PlainCase(
        name="hierarchical_attention_of_other_poolings",
        options={},
        outputs={"context": ("batch", DIM)},
        reference=hierarchy({"word": plainly(highest), "sentence": plainly(mean)}),
        left_out={"every kept place is seen": "its words are read by their maxima"},
        **SHAPES,
    ),
]

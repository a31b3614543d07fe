"""Search for the best output of a model, over a step function, in the TensorFlow graph."""

from __future__ import annotations

from keras_attention.decoding.beam import beam_search, repeat_rows
from keras_attention.decoding.greedy import forced_search, greedy_search, sample_search
from keras_attention.decoding.hypotheses import IMPOSSIBLE, Hypotheses, SearchSettings, coverage_penalty, length_penalty

__all__ = [
    "IMPOSSIBLE",
    "Hypotheses",
    "SearchSettings",
    "beam_search",
    "coverage_penalty",
    "forced_search",
    "greedy_search",
    "length_penalty",
    "repeat_rows",
    "sample_search",
]

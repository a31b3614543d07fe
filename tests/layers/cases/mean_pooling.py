"""`MeanPooling`."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import MeanPooling
from tests.layers.cases.attentive_pooling import pooling_case


def mean(arrays, masks, weights):
    """The mean of the kept places of each row, and its share for each of them."""
    sequence, kept = arrays["sequence"], masks["kept"]
    context, shares = np.zeros((len(sequence), sequence.shape[-1])), np.zeros(kept.shape)
    for b, row in enumerate(kept):
        if row.any():
            context[b] = np.mean(sequence[b][row], axis=0)
            shares[b][row] = 1 / np.count_nonzero(row)
    return {"context": context, "weights": shares}


CASES = [pooling_case("mean_pooling", MeanPooling, {}, mean)]

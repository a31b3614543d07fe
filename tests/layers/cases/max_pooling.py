"""`MaxPooling`."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import MaxPooling
from tests.layers.cases.attentive_pooling import pooling_case


def highest(arrays, masks, weights):
    """Channel by channel: the highest kept value, and one vote shared by the places where it stands."""
    sequence, kept = arrays["sequence"], masks["kept"]
    context, shares = np.zeros((len(sequence), sequence.shape[-1])), np.zeros(kept.shape)
    for b, d in np.ndindex(*context.shape):
        places = np.flatnonzero(kept[b])
        if not places.size:
            continue
        context[b, d] = max(sequence[b, t, d] for t in places)
        winners = [t for t in places if sequence[b, t, d] == context[b, d]]
        for t in winners:
            shares[b, t] += 1 / len(winners) / sequence.shape[-1]
    return {"context": context, "weights": shares}


CASES = [
    pooling_case(
        "max_pooling",
        MaxPooling,
        {},
        highest,
        left_out={"every kept place is seen": "only the places of maxima are"},
    )
]

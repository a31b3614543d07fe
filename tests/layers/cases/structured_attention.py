"""`StructuredAttention`."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import StructuredAttention
from tests import reference
from tests.layers.case import Case
from tests.layers.cases.attentive_pooling import call, own

DIM, ROWS, UNITS = 6, 4, 8


def lin(arrays, masks, weights):
    """Lin et al., 2017, equations 6 and 7, sentence by sentence: `A = softmax(W_s2 tanh(W_s1 Hᵀ))`, `M = A H`."""
    first, second = own(weights, "kernel").T, own(weights, "row_kernel").T
    score = np.stack([second @ np.tanh(first @ sentence.T) for sentence in arrays["sequence"]])
    alpha = reference.masked_softmax(score, masks["kept"][:, None])
    return {"context": reference.context(alpha, arrays["sequence"]), "weights": alpha}


CASES = [
    Case(
        name="structured_attention",
        layer=StructuredAttention,
        options={"rows": ROWS, "units": UNITS},
        sizes={"batch": 2, "places": 5},
        arrays={"sequence": ("batch", "places", DIM)},
        masks={"kept": ("batch", "places")},
        outputs={"context": ("batch", ROWS, DIM)},
        weights={"weights": ("batch", ROWS, "places")},
        looks_at={"weights": "kept"},
        call=call,
        reference=lin,
    )
]

"""`GatedPooling`."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import GatedPooling
from tests.layers.cases.attentive_pooling import UNITS, own, pooled, pooling_case


def ilse(place, weights):
    """Ilse et al., 2018, equation 9: `wᵀ (tanh(V h) ⊙ sigm(U h))`."""
    gate = 1 / (1 + np.exp(-(own(weights, "gate_kernel").T @ place)))
    return float(own(weights, "query") @ (np.tanh(own(weights, "kernel").T @ place) * gate))


CASES = [pooling_case("gated_pooling", GatedPooling, {"units": UNITS}, pooled(ilse))]

"""`AttentivePooling`, and how a case of any pooling is made."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import AttentivePooling
from tests import reference
from tests.layers.case import Case

DIM, UNITS = 6, 8


def call(layer, arrays, masks, **more):
    mask = masks.get("kept")
    context, weights = layer(arrays["sequence"], mask=mask, return_attention_scores=True, **more)
    return {"context": context, "weights": weights}


def pooling_case(name, layer, options, reference, **more):
    """A case of a pooling, (B, T, D) → (B, D)."""
    return Case(
        name=name,
        layer=layer,
        options=options,
        sizes={"batch": 2, "places": 5},
        arrays={"sequence": ("batch", "places", DIM)},
        masks={"kept": ("batch", "places")},
        outputs={"context": ("batch", DIM)},
        weights={"weights": ("batch", "places")},
        looks_at={"weights": "kept"},
        call=call,
        reference=reference,
        **more,
    )


def own(weights, name):
    """The weight of this name, wherever in the model its layer stands."""
    (found,) = [value for path, value in weights.items() if path.split("/")[-1] == name]
    return found


def pooled(score):
    """The reference of a pooling that reads with the softmax of a score of each place: `Σ_t α_t h_t`."""

    def of(arrays, masks, weights):
        sequence, kept = arrays["sequence"], masks["kept"]
        scores = np.array([[score(place, weights) for place in row] for row in sequence])
        alpha = reference.masked_softmax(scores, kept)
        context = np.zeros((len(sequence), sequence.shape[-1]))
        for b, t in np.ndindex(*alpha.shape):
            context[b] += alpha[b, t] * sequence[b, t]
        return {"context": context, "weights": alpha}

    return of


def yang(place, weights):
    """Yang et al., 2016, equations 5 and 6: `u = tanh(W h + b)`, the score `u · u_w`."""
    hidden = np.tanh(own(weights, "kernel").T @ place + own(weights, "bias"))
    return float(hidden @ own(weights, "query"))


def zhou(place, weights):
    """Zhou et al., 2016, section "Attention": `M = tanh(H)`, the score `wᵀ M`."""
    return float(own(weights, "query") @ np.tanh(place))


CASES = [
    pooling_case("attentive_pooling", AttentivePooling, {"units": UNITS}, pooled(yang)),
    pooling_case("attentive_pooling_without_units", AttentivePooling, {"units": None}, pooled(zhou)),
]

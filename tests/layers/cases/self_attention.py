"""`SelfAttention`, with one head and with several."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import SelfAttention
from tests import reference
from tests.layers.case import Case
from tests.layers.cases.multi_head_attention import UNITS, by_part, vaswani

DIM = 6


def call(layer, arrays, masks, **more):
    output, weights = layer(arrays["sequence"], mask=masks.get("kept"), return_attention_scores=True, **more)
    return {"output": output, "weights": weights}


def itself(heads, score):
    """Vaswani et al., 2017, section 3.2.3: queries, keys and values are the same places."""

    def of(arrays, masks, weights):
        sequence, kept = arrays["sequence"], masks["kept"]
        keep = reference.full_mask((*kept.shape, kept.shape[1]), kept, kept)
        mask = np.repeat(keep[:, None], heads, axis=1)
        output, alphas = vaswani(sequence, sequence, sequence, mask, by_part(weights), score)
        return {"output": output, "weights": alphas}

    return of


def self_case(name, heads, formula, **options):
    return Case(
        name=name,
        layer=SelfAttention,
        options=options,
        sizes={"batch": 2, "places": 5},
        arrays={"sequence": ("batch", "places", DIM)},
        masks={"kept": ("batch", "places")},
        outputs={"output": ("batch", "places", DIM)},
        weights={"weights": ("batch", heads, "places", "places")},
        looks_at={"weights": "kept"},
        asked_by={"weights": "kept"},
        call=call,
        reference=itself(heads, formula),
        half_bound=2.0,  # projections before and after the attention
    )


CASES = [
    self_case("self_attention", 1, reference.scaled_dot, use_bias=False),
    self_case("self_attention_heads", 3, reference.mlp, num_heads=3, score="mlp", units=UNITS),
]

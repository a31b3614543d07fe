"""`MultiHeadAttention`, over several scores and alignments."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import MultiHeadAttention
from tests import reference
from tests.layers.case import Case

QUERY_DIM, VALUE_DIM, KEY_DIM = 7, 6, 5
HEADS, HEAD_KEY_DIM, HEAD_VALUE_DIM, UNITS = 3, 4, 2, 8

CANCELLED = {"gradient of everything": "what the bias of the keys adds to all scores of a query, softmax takes away"}


def by_part(weights):
    """Weights by their path inside the layer: "query/kernel", "score_0/scale", …."""
    return {"/".join(path.split("/")[-2:]): value for path, value in weights.items()}


def vaswani(query, value, key, mask, weights, score=reference.scaled_dot, align=reference.masked_softmax):
    """Vaswani et al., 2017, section 3.2.2, head after head: `Concat(head_1, …, head_h) W^O`.

    Args:
        query, value, key: float64 (B, Tq, Dq), (B, Tv, Dv), (B, Tv, Dk).
        mask: bool (B, H, Tq, Tv).
        weights: by part, kernels (D, H, d) and (H, d, Dout), biases (H, d) and (Dout,), where there are some.

    Returns:
        output (B, Tq, Dout), 0 where no head sees anything, and weights (B, H, Tq, Tv).
    """

    def projected(name, places, head):
        matrix, bias = weights[f"{name}/kernel"][:, head].T, weights.get(f"{name}/bias")
        return np.array([[matrix @ x + (0 if bias is None else bias[head]) for x in row] for row in places])

    alphas, matrix = np.zeros(mask.shape), weights["attention_output/kernel"]
    output = np.zeros((*mask.shape[:1], mask.shape[2], matrix.shape[-1]))
    for head in range(mask.shape[1]):
        own = {path.split("/")[1]: value for path, value in weights.items() if path.startswith(f"score_{head}/")}
        scores = reference.score_matrix(score, projected("query", query, head), projected("key", key, head), own)
        alphas[:, head] = align(scores, mask[:, head])
        read = reference.context(alphas[:, head], projected("value", value, head))
        output += np.array([[matrix[head].T @ c for c in row] for row in read])
    output += weights.get("attention_output/bias", 0.0)
    output[~mask.any((1, 3))] = 0
    return output, alphas


def call(layer, arrays, masks, **more):
    given = {f"{name}_mask": masks[name] for name in ("query", "value") if name in masks}
    inputs = (arrays[name] for name in ("query", "value", "key"))
    output, weights = layer(*inputs, **given, return_attention_scores=True, **more)
    return {"output": output, "weights": weights}


def heads_of(score, align=reference.masked_softmax):
    def of(arrays, masks, weights):
        query, value, key = (arrays[name] for name in ("query", "value", "key"))
        keep = reference.full_mask((*query.shape[:2], value.shape[1]), masks["query"], masks["value"])
        mask = np.repeat(keep[:, None], HEADS, axis=1)
        output, alphas = vaswani(query, value, key, mask, by_part(weights), score, align)
        return {"output": output, "weights": alphas}

    return of


def heads_case(name, reference, left_out=None, output_dim=QUERY_DIM, **options):
    return Case(
        name=name,
        layer=MultiHeadAttention,
        options={"num_heads": HEADS, "key_dim": HEAD_KEY_DIM, "value_dim": HEAD_VALUE_DIM, **options},
        sizes={"batch": 2, "query": 3, "value": 5},
        arrays={
            "query": ("batch", "query", QUERY_DIM),
            "value": ("batch", "value", VALUE_DIM),
            "key": ("batch", "value", KEY_DIM),
        },
        masks={"query": ("batch", "query"), "value": ("batch", "value")},
        outputs={"output": ("batch", "query", output_dim)},
        weights={"weights": ("batch", HEADS, "query", "value")},
        looks_at={"weights": "value"},
        asked_by={"weights": "query"},
        call=call,
        reference=reference,
        left_out={"TimeDistributed": "it takes several tensors", **(left_out or {})},
        half_bound=2.0,  # projections before and after the attention
    )


CASES = [
    heads_case("heads_scaled_dot", heads_of(reference.scaled_dot), CANCELLED),
    heads_case("heads_dot", heads_of(reference.dot), output_dim=9, score="dot", use_bias=False, output_shape=9),
    heads_case("heads_cosine", heads_of(reference.cosine), score="cosine"),
    heads_case("heads_general", heads_of(reference.general), score="general", use_bias=False),
    heads_case("heads_additive", heads_of(reference.additive), score="additive", units=UNITS),
    heads_case(
        "heads_sparsemax",
        heads_of(reference.scaled_dot, reference.masked_sparsemax),
        {"every kept place is seen": "sparse: low scores get exactly 0"},
        alignment="sparsemax",
        use_bias=False,
    ),
]

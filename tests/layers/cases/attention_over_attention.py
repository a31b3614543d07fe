"""`AttentionOverAttention`, one case with the sum over the words that is made of it."""

from __future__ import annotations

import numpy as np

from keras_attention.layers import AttentionOverAttention, sum_attention
from tests import reference
from tests.layers.case import Case
from tests.layers.cases.attentive_pooling import own

DIM, VOCABULARY, CANDIDATES = 6, 5, 4


def call(layer, arrays, masks, **more):
    mask = [masks.get("document"), masks.get("query")] if masks else None
    inputs = [arrays["document"], arrays["query"]]
    weights, alpha, beta = layer(inputs, mask=mask, return_attention_scores=True, **more)
    return {"weights": weights, "alpha": alpha, "beta": beta}


def call_and_sum(layer, arrays, masks, **more):
    found = call(layer, arrays, masks, **more)
    return {**found, "sums": sum_attention(found["weights"], arrays["document_ids"], arrays["candidate_ids"])}


def cui(score):
    """Cui et al., 2017, section 3, document by document, over what is kept of each: M, α, β, and `s = αᵀ β`."""

    def of(arrays, masks, weights):
        documents, queries = arrays["document"], arrays["query"]
        batch, document_length, query_length = len(documents), documents.shape[1], queries.shape[1]
        found = {
            "weights": np.zeros((batch, document_length)),
            "alpha": np.zeros((batch, query_length, document_length)),
            "beta": np.zeros((batch, query_length)),
        }
        for b in range(batch):
            words, asked = np.flatnonzero(masks["document"][b]), np.flatnonzero(masks["query"][b])
            if not words.size or not asked.size:
                continue
            matching = np.array([[score(queries[b, j], documents[b, i], weights) for j in asked] for i in words])
            alpha = reference.masked_softmax(matching.T).T  # each column over the document
            beta = np.mean(reference.masked_softmax(matching), axis=0)
            found["alpha"][b][np.ix_(asked, words)] = alpha.T
            found["beta"][b, asked] = beta
            found["weights"][b, words] = alpha @ beta
        return found

    return of


def cui_and_sum(arrays, masks, weights):
    """`P(w) = Σ_{i ∈ I(w, D)} s_i`, word by word."""
    found = cui(reference.dot)(arrays, masks, weights)
    sums = np.zeros(arrays["candidate_ids"].shape)
    for b, c in np.ndindex(*sums.shape):
        for i, word in enumerate(arrays["document_ids"][b]):
            if word == arrays["candidate_ids"][b, c] != 0:
                sums[b, c] += found["weights"][b, i]
    return {**found, "sums": sums}


def general(query, key, weights):
    return reference.general(query, key, {"kernel": own(weights, "kernel")})


def aoa_case(name, options, **more):
    return Case(
        name=name,
        layer=AttentionOverAttention,
        options=options,
        sizes={"batch": 2, "document": 7, "query": 3},
        arrays={"document": ("batch", "document", DIM), "query": ("batch", "query", DIM)},
        masks={"document": ("batch", "document"), "query": ("batch", "query")},
        weights={
            "weights": ("batch", "document"),
            "alpha": ("batch", "query", "document"),
            "beta": ("batch", "query"),
        },
        looks_at={"weights": "document", "alpha": "document", "beta": "query"},
        asked_by={"alpha": "query"},
        **more,
    )


CASES = [
    aoa_case(
        "attention_over_attention",
        {},
        ints={
            "document_ids": (("batch", "document"), VOCABULARY),
            "candidate_ids": (("batch", CANDIDATES), VOCABULARY),
        },
        outputs={"sums": ("batch", CANDIDATES)},
        call=call_and_sum,
        reference=cui_and_sum,
    ),
    aoa_case("attention_over_attention_general", {"score": "general"}, outputs={}, call=call, reference=cui(general)),
]

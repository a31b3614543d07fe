"""`MemoryAttention`, of both tyings. Masks go in as ids of 0: that is how the layer is told of padding."""

from __future__ import annotations

import numpy as np
from keras import ops

from keras_attention.layers import MemoryAttention
from tests.layers.case import Case

DIM, HOPS, VOCABULARY, MEMORIES = 7, 3, 11, 13


def call(layer, arrays, masks, **more):
    query, memories = (ops.convert_to_tensor(arrays[name]) for name in ("query", "memories"))
    if masks.get("words") is not None:
        memories = memories * ops.cast(masks["words"], "int32")
    if masks.get("memories") is not None:
        memories = memories * ops.cast(ops.expand_dims(masks["memories"], -1), "int32")
    if masks.get("asked") is not None:
        query = query * ops.cast(masks["asked"], "int32")
    state, weights = layer([query, memories], return_attention_scores=True, **more)
    return {"state": state, "logits": layer.logits(state), "weights": weights}


def sentence(embedding, words, position_encoding, position_length=None):
    """Sukhbaatar et al., 2015, section 4.1: `Σ_j l_j · A x_j`, l_j by place, or 1; words, the ids that are not 0.

    With a length the encoding of the authors' code: 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (d J).
    """
    vector, length, dim = np.zeros(embedding.shape[-1]), position_length or len(words), embedding.shape[-1]
    for j, word in enumerate(words, start=1):
        for k in range(1, dim + 1):
            place = (1 - j / length) - (k / dim) * (1 - 2 * j / length) if position_encoding else 1
            if position_length:
                place = 1 + 4 * (k - (dim + 1) / 2) * (j - (length + 1) / 2) / (dim * length)
            vector[k - 1] += place * embedding[word, k - 1]
    return vector


def tied(weights, tying):
    """A^k, C^k, T_A^k and T_C^k of each hop, then B, Wᵀ and H, from the layer's own weights by name."""
    if tying == "adjacent":
        hops = [
            [weights.get(f"{kind}_{k + step}") for kind in ("embedding", "time") for step in (0, 1)]
            for k in range(HOPS)
        ]
        return hops, weights["embedding_0"], weights[f"embedding_{HOPS}"], np.eye(DIM)
    hops = [[weights.get(f"{kind}_{side}") for kind in ("embedding", "time") for side in (0, 1)]] * HOPS
    return hops, weights["query_embedding"], weights["answer_embedding"], weights["state_kernel"].T


def sukhbaatar(tying="adjacent", position_encoding=True, temporal_encoding=True, linear=False, position_length=None):
    """The reference, story by story, hop by hop: sections 2.1, 2.2 and 4.1."""

    def of(arrays, masks, weights):
        hops, b_matrix, answers, h_matrix = tied({path.split("/")[-1]: w for path, w in weights.items()}, tying)
        memories = arrays["memories"] * masks["words"] * masks["memories"][..., None]
        queries = arrays["query"] * masks["asked"]
        found = {"state": [], "logits": [], "weights": np.zeros((len(queries), HOPS, memories.shape[1]))}
        for b, (query, story) in enumerate(zip(queries, memories, strict=True)):
            u = sentence(b_matrix, [word for word in query if word], position_encoding, position_length)
            there = [i for i in range(len(story)) if story[i].any()]
            for k, (a_matrix, c_matrix, time_a, time_c) in enumerate(hops):
                m, c = {}, {}
                for age, i in enumerate(reversed(there)):
                    words = [word for word in story[i] if word]
                    m[i] = sentence(a_matrix, words, position_encoding, position_length)
                    c[i] = sentence(c_matrix, words, position_encoding, position_length)
                    if temporal_encoding:
                        m[i], c[i] = m[i] + time_a[age], c[i] + time_c[age]
                score = {i: u @ m[i] for i in there}
                highest = max(score.values(), default=0.0)
                exponent = {i: np.exp(score[i] - highest) for i in there}
                p = {i: score[i] if linear else exponent[i] / sum(exponent.values()) for i in there}
                u = h_matrix @ u + sum((p[i] * c[i] for i in there), np.zeros(DIM))
                for i in there:
                    found["weights"][b, k, i] = p[i]
            found["state"].append(u)
            found["logits"].append(np.concatenate([[0.0], answers[1:] @ u]))
        return {name: np.asarray(value) for name, value in found.items()}

    return of


def memory_case(name, reference, left_out=None, **options):
    return Case(
        name=name,
        layer=MemoryAttention,
        options={
            "vocabulary_size": VOCABULARY,
            "embedding_dim": DIM,
            "hops": HOPS,
            "max_memories": MEMORIES,
            **options,
        },
        sizes={"batch": 2, "query": 4, "memories": 5, "words": 3},
        arrays={},
        ints={"query": (("batch", "query"), VOCABULARY), "memories": (("batch", "memories", "words"), VOCABULARY)},
        masks={
            "memories": ("batch", "memories"),
            "words": ("batch", "memories", "words"),
            "asked": ("batch", "query"),
        },
        outputs={"state": ("batch", DIM), "logits": ("batch", VOCABULARY)},
        weights={"weights": ("batch", HOPS, "memories")},
        looks_at={"weights": "memories"},
        call=call,
        reference=reference,
        left_out=left_out or {},
        half_bound=4.0,  # three hops, each from what the one before it read
    )


IN_ORDER = {"permutation": "its memories are ordered in time, its words in their sentence"}

CASES = [
    memory_case("memory_adjacent", sukhbaatar(), IN_ORDER),
    memory_case("memory_layer_wise", sukhbaatar("layer_wise"), IN_ORDER, tying="layer_wise"),
    memory_case("memory_places_of_three", sukhbaatar(position_length=3), IN_ORDER, position_length=3),
    memory_case(
        "memory_bag_of_words",
        sukhbaatar("layer_wise", position_encoding=False, temporal_encoding=False),
        tying="layer_wise",
        position_encoding=False,
        temporal_encoding=False,
    ),
    memory_case(
        "memory_linear_start",
        sukhbaatar(linear=True),
        {
            **IN_ORDER,
            "rows sum to 1": "without softmax they are any numbers",
            "weights are shares": "without softmax a weight may be negative",
            "every kept place is seen": "without softmax a weight may be negative",
        },
        linear_start=True,
    ),
]

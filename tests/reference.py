"""The formulas of the papers in NumPy, float64, one query and one key at a time. Shares no code with the library.

Weights come under the names that the layers give them. `matrix @ vector` stands where the papers write `W x`, so a
layer's kernel, which multiplies from the right, enters transposed.
"""

from __future__ import annotations

import numpy as np


def dot(query, key, weights=None):
    """Luong et al., 2015, equation 8: `h_t · h_s`."""
    return float(np.sum(query * key))


def scaled_dot(query, key, weights=None):
    """Vaswani et al., 2017, equation 1: `q · k / √d`."""
    return float(np.sum(query * key)) / np.sqrt(query.size)


def general(query, key, weights):
    """Luong et al., 2015, equation 8: `h_t · W h_s`."""
    return float(query @ (weights["kernel"].T @ key))


def additive(query, key, weights):
    """Bahdanau et al., 2015, appendix A.1.2: `v · tanh(W s + U h)`, and b inside the tanh where there is one."""
    hidden = weights["query_kernel"].T @ query + weights["key_kernel"].T @ key + weights.get("bias", 0.0)
    return float(weights["scale"] @ np.tanh(hidden))


def normalized_additive(query, key, weights):
    """Raffel et al., 2017, equation 16, without its r: `g v / ‖v‖ · tanh(W s + U h + b)`."""
    direction = weights["scale"] / np.linalg.norm(weights["scale"])
    return float(weights["gain"]) * additive(query, key, {**weights, "scale": direction})


def concat(query, key, weights):
    """Luong et al., 2015, equation 8: `v · tanh(W [h_t; h_s])`."""
    matrix = np.concatenate([weights["query_kernel"], weights["key_kernel"]]).T  # (U, Dq + Dk)
    return float(weights["scale"] @ np.tanh(matrix @ np.concatenate([query, key])))


def score_matrix(score, query, key, weights):
    """`score` of each query with each key: query (B, Tq, Dq), key (B, Tv, Dk) → (B, Tq, Tv)."""
    batch, query_length, value_length = len(query), query.shape[1], key.shape[1]
    result = np.empty((batch, query_length, value_length))
    for b, q, v in np.ndindex(batch, query_length, value_length):
        result[b, q, v] = score(query[b, q], key[b, v], weights)
    return result


def masked_softmax(score, mask=None):
    """Softmax of each row over the places that `mask` keeps; 0 elsewhere, and everywhere if it keeps none."""
    mask = np.ones(score.shape, bool) if mask is None else np.broadcast_to(mask, score.shape)
    weights = np.zeros(score.shape)
    for row in np.ndindex(score.shape[:-1]):
        kept = [place for place in range(score.shape[-1]) if mask[row][place]]
        if not kept:
            continue
        exponents = np.exp(score[row][kept] - np.max(score[row][kept]))
        weights[row][kept] = exponents / np.sum(exponents)
    return weights


def full_mask(shape, query_mask=None, value_mask=None, attention_mask=None, causal=False):
    """Which of (B, Tq, Tv) are kept, place by place."""
    keep = np.ones(shape, bool)
    for b, q, v in np.ndindex(*shape):
        keep[b, q, v] = (
            (query_mask is None or query_mask[b, q])
            and (value_mask is None or value_mask[b, v])
            and (attention_mask is None or attention_mask[b, q, v])
            and (not causal or v <= q)
        )
    return keep


def context(weights, value):
    """`c_t = Σ_s a_t(s) h_s`: weights (B, Tq, Tv), value (B, Tv, Dv) → (B, Tq, Dv)."""
    result = np.zeros((*weights.shape[:2], value.shape[-1]))
    for b, q, v in np.ndindex(*weights.shape):
        result[b, q] += weights[b, q, v] * value[b, v]
    return result

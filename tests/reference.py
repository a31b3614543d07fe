"""The formulas of the papers in NumPy, float64, one query and one key at a time. Shares no code with the library.

Weights come under the names that the layers give them. `matrix @ vector` stands where the papers write `W x`, so a
layer's kernel, which multiplies from the right, enters transposed.
"""

from __future__ import annotations

import numpy as np


def dot(query, key, weights=None):
    """Luong et al., 2015, section 3.1: `h_t · h_s`."""
    return float(np.sum(query * key))


def scaled_dot(query, key, weights=None):
    """Vaswani et al., 2017, equation 1: `q · k / √d`."""
    return float(np.sum(query * key)) / np.sqrt(query.size)


def general(query, key, weights):
    """Luong et al., 2015, section 3.1: `h_t · W h_s`."""
    return float(query @ (weights["kernel"].T @ key))


def additive(query, key, weights):
    """Bahdanau et al., 2015, appendix A.1.2: `v · tanh(W s + U h)`, and b inside the tanh where there is one."""
    hidden = weights["query_kernel"].T @ query + weights["key_kernel"].T @ key + weights.get("bias", 0.0)
    return float(weights["scale"] @ np.tanh(hidden))


def normalized_additive(query, key, weights):
    """Raffel et al., 2017, the modified energy function, without its r: `g v / ‖v‖ · tanh(W s + U h + b)`."""
    direction = weights["scale"] / np.linalg.norm(weights["scale"])
    return float(weights["gain"]) * additive(query, key, {**weights, "scale": direction})


def concat(query, key, weights):
    """Luong et al., 2015, section 3.1: `v · tanh(W [h_t; h_s])`."""
    matrix = np.concatenate([weights["query_kernel"], weights["key_kernel"]]).T  # (U, Dq + Dk)
    return float(weights["scale"] @ np.tanh(matrix @ np.concatenate([query, key])))


def cosine(query, key, weights=None):
    """`q · k / (‖q‖ ‖k‖)`; 0 where one of them has no direction."""
    lengths = np.linalg.norm(query) * np.linalg.norm(key)
    return float(np.sum(query * key) / lengths) if lengths else 0.0


def mlp(query, key, weights):
    """`σ(w₂ · tanh(W₁ [q; k] + b₁) + b₂)`."""
    matrix = np.concatenate([weights["query_kernel"], weights["key_kernel"]]).T  # (U, Dq + Dk)
    hidden = np.tanh(matrix @ np.concatenate([query, key]) + weights["bias"])
    return float(1 / (1 + np.exp(-(weights["scale"] @ hidden + weights["output_bias"]))))


def channel_bilinear(query, key, weights):
    """Socher et al., 2013, equation 1, its bilinear form alone: `tanh(qᵀ W_c k)`, (C,)."""
    return np.array([np.tanh(query @ (kernel.T @ key)) for kernel in weights["kernel"]])


def channel_additive(query, key, weights):
    """Shen et al., 2018, section 3.1, σ their ELU: `Wᵀ σ(W⁽¹⁾ x + W⁽²⁾ q + b⁽¹⁾)`, (C,)."""
    hidden = weights["key_kernel"].T @ key + weights["query_kernel"].T @ query + weights["bias"]
    return weights["output_kernel"].T @ np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)


def channel_scores(score, query, key, weights):
    """A score of several channels of each query with each key → (B, C, Tq, Tv)."""
    batch, query_length, value_length = len(query), query.shape[1], key.shape[1]
    pairs = [
        [[score(query[b, q], key[b, v], weights) for v in range(value_length)] for q in range(query_length)]
        for b in range(batch)
    ]
    return np.moveaxis(np.array(pairs), -1, 1)


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


def _by_threshold(score, mask, weigh):
    """Rows `weigh(z, τ)` over what `mask` keeps, τ such that they sum to 1: found by halving an interval."""
    mask = np.ones(score.shape, bool) if mask is None else np.broadcast_to(mask, score.shape)
    weights = np.zeros(score.shape)
    for row in np.ndindex(score.shape[:-1]):
        kept = np.flatnonzero(mask[row])
        if not kept.size:
            continue
        scores = score[row][kept] - score[row][kept].max()
        low, high = -2.0, 0.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if weigh(scores, middle).sum() > 1 else (low, middle)
        weights[row][kept] = weigh(scores, (low + high) / 2)
    return weights


def masked_sparsemax(score, mask=None):
    """Martins and Astudillo, 2016, proposition 1: `max(z − τ, 0)`."""
    return _by_threshold(score, mask, lambda z, threshold: np.maximum(z - threshold, 0))


def masked_entmax15(score, mask=None):
    """Peters et al., 2019, α-entmax with α = 1.5: `max((α − 1) z − τ, 0)^(1 / (α − 1))`."""
    return _by_threshold(score, mask, lambda z, threshold: np.maximum(0.5 * z - threshold, 0) ** 2)


def masked_argmax(score, mask=None):
    """1 at the first of the highest kept scores of each row."""
    mask = np.ones(score.shape, bool) if mask is None else np.broadcast_to(mask, score.shape)
    weights = np.zeros(score.shape)
    for row in np.ndindex(score.shape[:-1]):
        kept = [place for place in range(score.shape[-1]) if mask[row][place]]
        if kept:
            weights[row][max(kept, key=lambda place: (score[row][place], -place))] = 1
    return weights


def location(query, weights):
    """Luong et al., 2015, section 3.1, location: `W_a h_t`, a score for each of the positions there are."""
    return query @ weights["kernel"]


def local(score, query, key, mask, weights, lengths, radius, predictive):
    """Luong et al., 2015, section 3.2, position by position: local-m, or local-p where `predictive`."""
    result = np.zeros(mask.shape)
    for b, t in np.ndindex(*mask.shape[:2]):
        if predictive:
            hidden = np.tanh(weights["position_kernel"].T @ query[b, t])
            centre = lengths[b] / (1 + np.exp(-(weights["position_scale"] @ hidden)))
        else:
            centre = min(t, max(lengths[b] - 1, 0))
        window = [s for s in range(mask.shape[2]) if centre - radius <= s <= centre + radius and mask[b, t, s]]
        exponents = {s: np.exp(score(query[b, t], key[b, s], weights)) for s in window}
        for s in window:
            result[b, t, s] = exponents[s] / sum(exponents.values())
            if predictive:
                deviation = radius / 2
                result[b, t, s] *= np.exp(-((s - centre) ** 2) / (2 * deviation**2))
    return result


def coverage(query, key, mask, weights):
    """See et al., 2017, equations 10, 11 and 2, query after query: `v · tanh(W_h h + W_s s + w_c c + b_attn)`."""
    result = np.zeros(mask.shape)
    for b, t in np.ndindex(*mask.shape[:2]):
        covered = result[b, :t].sum(0)
        score = np.array(
            [
                weights["scale"]
                @ np.tanh(
                    weights["key_kernel"].T @ key[b, i]
                    + weights["query_kernel"].T @ query[b, t]
                    + weights["coverage_kernel"] * covered[i]
                    + weights["bias"]
                )
                for i in range(mask.shape[2])
            ]
        )
        result[b, t] = masked_softmax(score, mask[b, t])
    return result


def location_aware_scores(query, keys, previous, weights):
    """Chorowski et al., 2015, section 2.2, one query: `w · tanh(W s + V h_j + U f_j + b)`, `f = F * α`, α before."""
    width = len(weights["filter_kernel"])
    scores = np.zeros(len(keys))
    for j, key in enumerate(keys):
        features = np.zeros(weights["filter_kernel"].shape[-1])
        for place in range(width):
            looked_at = j + place - (width - 1) // 2
            if 0 <= looked_at < len(keys):
                features += weights["filter_kernel"][place, 0] * previous[looked_at]
        hidden = weights["query_kernel"].T @ query + weights["key_kernel"].T @ key + weights["bias"]
        scores[j] = weights["scale"] @ np.tanh(hidden + weights["location_kernel"].T @ features)
    return scores


def location_aware(query, key, mask, weights):
    """Softmax of `location_aware_scores`, query after query; before the first the weights are 0."""
    result = np.zeros(mask.shape)
    for b in range(len(mask)):
        previous = np.zeros(mask.shape[2])
        for t in range(mask.shape[1]):
            scores = location_aware_scores(query[b, t], key[b], previous, weights)
            result[b, t] = masked_softmax(scores, mask[b, t])
            previous = result[b, t] if mask[b, t].any() else previous
    return result


def expected_monotonic(stop, previous):
    """Raffel et al., 2017, section 2.3: `α_j = p_j Σ_{k ≤ j} α'_k Π_{k ≤ l < j} (1 − p_l)`, of p and α', (Tv,) each."""
    return np.array(
        [stop[j] * sum(previous[k] * np.prod(1 - stop[k:j]) for k in range(j + 1)) for j in range(len(stop))]
    )


def hard_monotonic(stop, previous):
    """Raffel et al., 2017, section 2.2, without training: from the place before on, the first with p > 1/2."""
    result = np.zeros(len(stop))
    if previous.any():
        for j in range(int(np.argmax(previous)), len(stop)):
            if stop[j] > 0.5:
                result[j] = 1
                break
    return result


def monotonic(scores, query, key, mask, weights, align):
    """Query after query, by one of the two above; `scores` of query, keys, weights before and the layer's weights."""
    result = np.zeros(mask.shape)
    for b in range(len(mask)):
        before, previous = np.zeros(mask.shape[2]), np.eye(mask.shape[2])[0]
        for t in range(mask.shape[1]):
            score = scores(query[b, t], key[b], before, weights) + weights["score_bias"]
            if mask[b, t].any():
                result[b, t] = align(np.where(mask[b, t], 1 / (1 + np.exp(-score)), 0), previous)
                before = previous = result[b, t]
    return result


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
    """`c_t = Σ_s a_t(s) h_s`: weights (B, Tq, Tv), or (B, Dv, Tq, Tv), value (B, Tv, Dv) → (B, Tq, Dv)."""
    if weights.ndim == 4:  # channel by channel
        channels = range(value.shape[-1])
        return np.concatenate([context(weights[:, c], value[..., c : c + 1]) for c in channels], axis=-1)
    result = np.zeros((*weights.shape[:2], value.shape[-1]))
    for b, q, v in np.ndindex(*weights.shape):
        result[b, q] += weights[b, q, v] * value[b, v]
    return result

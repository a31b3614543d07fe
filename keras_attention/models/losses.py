"""Losses of whole batches, one number an example."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["ranking_loss", "smoothed_cross_entropy"]

_SHARPNESS, _RIGHT_MARGIN, _WRONG_MARGIN = 2.0, 2.5, 0.5  # γ, m+ and m− of dos Santos et al., 2015, table 1


def smoothed_cross_entropy(logits, labels, smoothing=0.0):
    """Cross entropy against `(1 - ε) · one_hot(label) + ε / V` (Szegedy et al., 2016, section 7), in float32.

    Args:
        logits: float (N, V).
        labels: int32 (N,).
        smoothing: float in [0, 1), ε.

    Returns:
        loss float32 (N,).
    """
    return _smoothed(tf.cast(logits, tf.float32), labels, smoothing)


def _smoothed(logits, labels, smoothing):
    """The loss with a gradient of its own, `softmax - (1 - ε) · one_hot - ε / V`: one pass over (N, V) for each term of
    the loss, as differentiation would make it, costs more than the softmax itself.
    """

    @tf.custom_gradient
    def loss(logits):
        nll, slope = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
        place = tf.stack([tf.range(tf.shape(labels)[0]), tf.cast(labels, tf.int32)], axis=-1)

        def gradient(upstream):
            # ε of the label's share goes to all V alike
            slopes = slope * upstream[:, None]
            if smoothing:
                slopes -= (smoothing / logits.shape[-1]) * upstream[:, None]
                slopes = tf.tensor_scatter_nd_add(slopes, place, smoothing * upstream)
            return slopes

        if not smoothing:
            return nll, gradient
        return nll + smoothing * (tf.gather_nd(logits, place) - tf.reduce_mean(logits, axis=-1)), gradient

    return loss(logits)


def ranking_loss(scores, labels, without_score=None):
    """The pairwise ranking of dos Santos et al., 2015 (arXiv 1504.06580), equation 1, in float32.

    `log(1 + exp(γ (m⁺ − s_y))) + log(1 + exp(γ (m⁻ + s_c)))`, with y the right label, c the highest of the others,
    γ = 2, m⁺ = 2.5 and m⁻ = 0.5. A label without a score (their "artificial class") is never c, and where it is the
    right one, the first term is 0.

    Args:
        scores: float (N, C).
        labels: int32 (N,).
        without_score: int. The place of the label without a score; None where each has one.

    Returns:
        loss float32 (N,).
    """
    scores = tf.cast(scores, tf.float32)
    count = scores.shape[-1]
    right = tf.one_hot(labels, count)
    scored = tf.ones([count]) if without_score is None else 1.0 - tf.one_hot(without_score, count)
    of_right = tf.reduce_sum(right * scores, axis=-1)
    is_scored = tf.reduce_sum(right * scored, axis=-1)
    highest_other = tf.reduce_max(tf.where(scored * (1.0 - right) > 0, scores, scores.dtype.min), axis=-1)
    pull = tf.nn.softplus(_SHARPNESS * (_RIGHT_MARGIN - of_right))
    return is_scored * pull + tf.nn.softplus(_SHARPNESS * (_WRONG_MARGIN + highest_other))

"""Losses of the generating families."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["smoothed_cross_entropy"]


def smoothed_cross_entropy(logits, labels, smoothing=0.0):
    """Cross entropy against `(1 - ε) · one_hot(label) + ε / V` (Szegedy et al., 2016, section 7), in float32.

    Args:
        logits: float (N, V).
        labels: int32 (N,).
        smoothing: float in [0, 1), ε.

    Returns:
        loss float32 (N,).
    """
    logits = tf.cast(logits, tf.float32)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if smoothing == 0:
        return loss
    # ε of the label's share goes to all V alike: nll + ε · (logit of the label - mean of the logits)
    return loss + smoothing * (tf.gather(logits, labels, batch_dims=1) - tf.reduce_mean(logits, axis=-1))

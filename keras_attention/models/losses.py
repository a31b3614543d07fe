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

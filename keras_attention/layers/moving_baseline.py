"""REINFORCE for hard attention: the loss, and the baseline that keeps its noise low."""

from __future__ import annotations

import keras
from keras import ops

__all__ = ["MovingBaseline", "reinforce_loss"]


def reinforce_loss(log_likelihood, log_probability, baseline=0.0, entropy=None, reward_weight=1.0, entropy_weight=0.0):
    """A loss whose gradient is that of the expected log likelihood over the places that were drawn.

    Xu et al., 2015 (arXiv 1502.03044), section 4.1: the gradient of
    `log p(y | s) + λ_r (log p(y | s) − b) log p(s) + λ_e H(s)`, the bracket being a reward that passes none; negated.

    Args:
        log_likelihood: float (B,), `log p(y | s)` of the target, given the places drawn; or (B, M), of M samples each.
        log_probability: float, the same shape, `log p(s)`: that of `HardAttention.draw` or `log_probability`, summed
            over the queries.
        baseline: float or scalar tensor, b.
        entropy: float, broadcastable to these, H(s), or None.
        reward_weight, entropy_weight: float, λ_r and λ_e.

    Returns:
        loss, the same shape. The mean over the samples has the same expected gradient and less variance.
    """
    log_likelihood, log_probability = (ops.convert_to_tensor(one) for one in (log_likelihood, log_probability))
    reward = ops.stop_gradient(log_likelihood - baseline)
    objective = log_likelihood + reward_weight * reward * log_probability
    if entropy is not None:
        objective = objective + entropy_weight * ops.convert_to_tensor(entropy)
    return -objective


@keras.saving.register_keras_serializable("keras_attention")
class MovingBaseline(keras.layers.Layer):
    """The moving average of a reward: `b_k = m b_{k−1} + (1 − m) · reward_k`, the mean over the batch.

    Xu et al., 2015 (arXiv 1502.03044), section 4.1, with m = 0.9.
    Differs from the paper: none; b is 0 before the first batch.

    Args:
        momentum: float in [0, 1). m.

    Call arguments:
        inputs: float (B,) or (B, M), the rewards, such as `log p(y | s)`.
        training: bool. Moves the average.

    Returns:
        b before this batch, a float32 scalar without gradient.

    Example:
    >>> baseline = MovingBaseline(momentum=0.5)
    >>> rewards = keras.ops.array([-4.0, -2.0])
    >>> float(baseline(rewards, training=True)), float(baseline(rewards))
    (0.0, -1.5)
    """

    def __init__(self, momentum=0.9, **kwargs):
        super().__init__(**kwargs)
        if isinstance(momentum, bool) or not 0.0 <= momentum < 1.0:
            raise ValueError(f"`momentum` must be a share in [0, 1). Received {momentum!r}.")
        self.momentum = momentum
        self.average = self.add_weight(
            name="average", shape=(), initializer="zeros", trainable=False, autocast=False, aggregation="mean"
        )
        self.built = True

    def call(self, inputs, training=None):
        before = ops.stop_gradient(ops.convert_to_tensor(self.average) + 0)
        if training:
            reward = ops.mean(ops.stop_gradient(ops.cast(inputs, before.dtype)))
            self.average.assign(self.momentum * before + (1 - self.momentum) * reward)
        return before

    def compute_output_shape(self, input_shape):
        return ()

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum}

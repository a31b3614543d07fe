"""`OrthogonalityRegularizer`: keeps the rows of a matrix apart."""

from __future__ import annotations

import keras
from keras import ops

from keras_attention.precision import at_least_float32

__all__ = ["OrthogonalityRegularizer"]


@keras.saving.register_keras_serializable("keras_attention")
class OrthogonalityRegularizer(keras.regularizers.Regularizer):
    """The penalty `‖A Aᵀ − I‖²_F`: 0 where the rows are of length 1 and at right angles.

    Lin et al., 2017 (arXiv 1703.03130), equation 8. On attention weights (B, r, Tv) it makes the rows look at
    different places, each at few; the sum is divided by B, so that its size does not depend on the batch. On a weight
    matrix (rows, columns), as `kernel_regularizer`, it is taken as it stands.

    Args:
        factor: float ≥ 0. What the penalty is multiplied by.

    Raises:
        ValueError: `factor` < 0, or a tensor that is neither (r, T) nor (B, r, T).

    Example:
    >>> float(OrthogonalityRegularizer(0.5)(keras.ops.ones((2, 3))))
    13.0
    """

    def __init__(self, factor=1.0):
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or factor < 0:
            raise ValueError(f"`factor` must be a number >= 0. Received {factor!r}.")
        self.factor = float(factor)

    def __call__(self, x):
        matrix = at_least_float32(ops.convert_to_tensor(x))
        if len(matrix.shape) not in (2, 3):
            raise ValueError(
                f"The penalty is of a matrix (r, T) or a batch of them, (B, r, T). Received {tuple(matrix.shape)}. "
                f"Reshape it first."
            )
        products = ops.matmul(matrix, ops.swapaxes(matrix, -1, -2))
        penalty = ops.sum(ops.square(products - ops.eye(matrix.shape[-2], dtype=matrix.dtype)))
        if len(matrix.shape) == 3:
            penalty = penalty / ops.cast(ops.shape(matrix)[0], matrix.dtype)
        return self.factor * penalty

    def get_config(self):
        return {"factor": self.factor}

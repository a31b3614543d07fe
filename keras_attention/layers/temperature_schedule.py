"""`ExponentialTemperature`: how the temperature of a Gumbel-softmax falls."""

from __future__ import annotations

import keras
from keras import ops

__all__ = ["ExponentialTemperature"]


@keras.saving.register_keras_serializable("keras_attention")
class ExponentialTemperature(keras.optimizers.schedules.LearningRateSchedule):
    """A temperature that falls with the steps of training, down to a floor: `max(end, start · exp(−rate · step))`.

    Jang et al., 2017 (arXiv 1611.01144), section 4, with start 1, end 0.5 and a rate of 1e-5 or 1e-4.
    Differs from the paper: it falls at each step, not once in 500 or 1,000.

    For `HardAttention(temperature=…)`, which takes the schedules of `keras.optimizers.schedules` just as well.

    Args:
        start, end: float > 0.
        rate: float > 0, a step.

    Example:
    >>> schedule = ExponentialTemperature(start=2.0, end=0.5, rate=0.1)
    >>> [round(float(schedule(step)), 3) for step in (0, 10, 100)]
    [2.0, 0.736, 0.5]
    """

    def __init__(self, start=1.0, end=0.5, rate=1e-4):
        super().__init__()
        for name, value in (("start", start), ("end", end), ("rate", rate)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"`{name}` must be a number > 0. Received {value!r}.")
        if end > start:
            raise ValueError(
                f"The temperature falls: `end` must be at most `start`. Received end={end}, start={start}."
            )
        self.start, self.end, self.rate = float(start), float(end), float(rate)

    def __call__(self, step):
        return ops.maximum(self.start * ops.exp(-self.rate * ops.cast(step, "float32")), self.end)

    def get_config(self):
        return {"start": self.start, "end": self.end, "rate": self.rate}

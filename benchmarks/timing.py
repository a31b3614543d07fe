"""What the benchmarks share: both sides in one run, alternating, and the ratio of their medians with its spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

__all__ = ["Comparison", "compare", "median_seconds"]


class Comparison:
    """Seconds of two sides, measured in turn.

    Args:
        ours, theirs: seconds of each round.
    """

    def __init__(self, ours: Sequence[float], theirs: Sequence[float]):
        self.ours, self.theirs = ours, theirs

    @property
    def ratio(self) -> float:
        """How many times longer theirs takes: ratio of the medians."""
        return statistics.median(self.theirs) / statistics.median(self.ours)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratio, round by round."""
        ratios = sorted(their / our for our, their in zip(self.ours, self.theirs, strict=True))
        low, _, high = statistics.quantiles(ratios, n=4)
        return low, high

    def line(self, unit_count: int = 1) -> str:
        """Milliseconds a unit of both sides, and the ratio."""
        ours, theirs = (1000 * statistics.median(side) / unit_count for side in (self.ours, self.theirs))
        low, high = self.spread
        return f"{ours:8.2f} ms against {theirs:8.2f} ms   ratio {self.ratio:5.2f}  (quartiles {low:.2f} to {high:.2f})"


def compare(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 20, warm_up: int = 2) -> Comparison:
    """Runs both sides in turn, `rounds` times after `warm_up`."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + warm_up):
        for side, call in zip(seconds, (ours, theirs), strict=True):
            start = time.perf_counter()
            call()
            if number >= warm_up:
                side.append(time.perf_counter() - start)
    return Comparison(*seconds)


def median_seconds(call: Callable[[], object], rounds: int = 20, warm_up: int = 2) -> float:
    """The median of one side alone."""
    seconds = []
    for number in range(rounds + warm_up):
        start = time.perf_counter()
        call()
        if number >= warm_up:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)

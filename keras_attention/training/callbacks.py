"""What watches a training: the interface, and the progress on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO


@dataclass(frozen=True)
class Report:
    """Figures of a training since the report before.

    Args:
        step, epoch: ints. Updates made; epochs finished.
        loss: float. Mean loss a token.
        learning_rate, gradient_norm, average_decay: floats, of the last step; the norm is that before clipping.
        tokens_per_second: float. Of what the loss is a mean over.
        seconds: float. Training time so far, earlier sessions included.
        share: float in [0, 1]. Share of the budget used.
        skipped: int. Updates left out because the loss or the gradient was not finite.
        counted: str. What the loss is a mean over, such as "target tokens".
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    gradient_norm: float
    average_decay: float
    tokens_per_second: float
    seconds: float
    share: float
    skipped: int
    counted: str = "target tokens"


@dataclass(frozen=True)
class Validation:
    """Result of one validation.

    Args:
        step: int.
        scores: dict, name -> number; "loss" always.
        better: bool. The best so far.
        samples: fixed examples, each (example dict, Prediction).
    """

    step: int
    scores: Mapping[str, float]
    better: bool
    samples: list[tuple[Mapping[str, Any], Any]] = field(default_factory=list)


class Callback:
    """Watches a training; every method may be left as it is."""

    wants_samples = False

    def on_start(self, step: int, share: float) -> None:
        """The training starts, or continues after `step`."""

    def on_report(self, report: Report) -> None:
        """New figures, every `training.log_seconds`."""

    def on_validation(self, validation: Validation) -> None:
        """A validation is done."""

    def on_end(self, result: Any) -> None:
        """The training is over; `result` is its `FitResult`, or None after an error."""


class TerminalProgress(Callback):
    """Progress on stderr: a bar on a terminal, plain lines elsewhere, so that a log file reads well.

    Args:
        stream: text file; default stderr.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream
        self._bar: Any = None
        self._task: Any = None
        self._last = ""

    def on_start(self, step: int, share: float) -> None:
        self.stream = self.stream or sys.stderr
        if self.stream.isatty():
            self._start_bar(share)
        if step:
            self._say(f"continues after step {step}")

    def on_report(self, report: Report) -> None:
        figures = (
            f"epoch {report.epoch + 1}  step {report.step}  loss {report.loss:.3f}  "
            f"{report.tokens_per_second:,.0f} {report.counted}/s"
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=report.share, figures=figures, validation=self._last)
            return
        left = f"{remaining(report)} left" if report.share > 0 else ""
        extra = f"lr {report.learning_rate:.2e}  norm {report.gradient_norm:.2f}"
        skipped = f"  skipped {report.skipped}" if report.skipped else ""
        self._say(f"{clock(report.seconds)}  {figures}  {extra}{skipped}  {left}".rstrip())

    def on_validation(self, validation: Validation) -> None:
        shown = "  ".join(f"{name} {value:.3f}" for name, value in validation.scores.items())
        self._last = f"valid {shown}"
        self._say(f"validation after step {validation.step}: {shown}{'  (best so far)' if validation.better else ''}")

    def on_end(self, result: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if result is not None:
            self._say(
                f"finished after step {result.steps} and {result.minutes:.1f} minutes: {result.stopped_because}; "
                f"best {result.metric} {result.best_metric:.3f}"
            )

    def _start_bar(self, share: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = ("{task.fields[figures]}", "{task.fields[validation]}")
        texts = [TextColumn(column) for column in columns]
        self._bar = Progress(BarColumn(), *texts, TimeRemainingColumn(), console=Console(file=self.stream))
        self._task = self._bar.add_task("training", total=1.0, completed=share, figures="starting", validation="")
        self._bar.start()

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False)
        else:
            print(line, file=self.stream or sys.stderr, flush=True)


def remaining(report: Report) -> str:
    """Time left at the pace so far."""
    return clock(report.seconds / report.share * (1 - report.share))


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"

"""Where a training stands: what a checkpoint keeps besides the variables, and the clock of its budget."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from keras_attention.training.checkpoints import CheckpointError
from keras_attention.training.recipe import TrainingConfig


@dataclass
class RunState:
    """Where a training stands.

    Args:
        step: int. Updates made, skipped ones included.
        epoch, batch: ints. The next batch is number `batch` of epoch `epoch`.
        seconds: float. Time used, on the clock of the budget.
        tokens: float. Target tokens seen.
        best: float or None. Best value of the metric; `best_step` is where.
        stale: int. Validations since the best.
        validated_step: int. Step of the last validation; -1 before the first.
        skipped, skipped_in_a_row: ints. Updates left out because something was not finite.
        history: list of dicts, one a validation.
        identity: dict. Hashes of what must not change when the training continues.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    validated_step: int = -1
    skipped: int = 0
    skipped_in_a_row: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any], identity: dict[str, str], where: str) -> RunState:
        """The state of a checkpoint, if the training that asks for it is the same one.

        Raises:
            CheckpointError: the checkpoint belongs to another model or other data, or lacks a field.
        """
        names = {item.name for item in fields(cls)}
        if set(values) != names:
            raise CheckpointError(
                f"{where} holds the state {sorted(values)}. Expected {sorted(names)}; it was written by another "
                "release: continue with that one, or use a new run folder."
            )
        found = values["identity"]
        changed = [name for name in identity if found.get(name) != identity[name]]
        if changed:
            raise CheckpointError(
                f"{where} belongs to a training with another {' and another '.join(changed)}. Expected the same recipe "
                "and files to continue it; use those, train in a new run folder, or pass resume=False to start over."
            )
        return cls(**values)


class Clock:
    """Time that counts against the budget.

    Args:
        kind: "wall", or "cpu": CPU seconds of this process over the cores it may use, which other work on the machine
            does not stretch.
        used: float. Seconds used by earlier sessions.
    """

    def __init__(self, kind: str, used: float = 0.0):
        self._now = time.monotonic if kind == "wall" else _cpu_seconds
        self._start = self._now() - used

    def seconds(self) -> float:
        return self._now() - self._start


def _cpu_seconds() -> float:
    return time.process_time() / usable_cores()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def budget_share(config: TrainingConfig, state: RunState, batches_per_epoch: int) -> float:
    """Share of the budget used: of that which is nearest its end."""
    shares = [0.0]
    if config.steps:
        shares.append(state.step / config.steps)
    if config.epochs:
        shares.append((state.epoch + state.batch / batches_per_epoch) / config.epochs)
    if config.minutes:
        shares.append(state.seconds / (60 * config.minutes))
    return min(max(shares), 1.0)


def decay_share(config: TrainingConfig, state: RunState, batches_per_epoch: int) -> float:
    """Share of the budget over which the learning rate decays; without one it stays 0."""
    if config.decay_over == "minutes":
        return min(state.seconds / (60 * config.minutes), 1.0)
    if config.steps:
        return min(state.step / config.steps, 1.0)
    return budget_share(config, state, batches_per_epoch) if config.epochs else 0.0


def reason_to_stop(config: TrainingConfig, state: RunState) -> str | None:
    """Why the training ends here, in words; None where it does not."""
    if config.steps and state.step >= config.steps:
        return f"the budget of {config.steps} steps is used"
    if config.epochs and state.epoch >= config.epochs:
        return f"the budget of {config.epochs} epochs is used"
    if config.minutes and state.seconds >= 60 * config.minutes:
        return f"the budget of {config.minutes:g} minutes is used"
    patience = config.early_stopping.patience
    if patience and state.stale >= patience:
        return f"{state.stale} validations without a better {config.early_stopping.metric}"
    return None

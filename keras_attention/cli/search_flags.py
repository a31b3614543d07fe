"""The flags of `run` that say how an output is found, and which of them go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from keras_attention.cli.errors import Misuse

_DRAWING = ("top_k", "top_p", "seed")


@dataclass(frozen=True)
class SearchFlags:
    """What the command line says; None where it says nothing. The names are those of `SearchOptions`.

    Raises:
        Misuse: two flags contradict each other, or a value is no number that the flag takes.
    """

    beam_size: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    coverage_penalty: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    no_repeat_ngram: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    replace_unknown: bool = False

    def __post_init__(self):
        for name in ("length_penalty", "coverage_penalty", "temperature"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise Misuse(f"run: {_flag(name)} {value} is not a finite number. Expected one such as 1.0.")
        if self.temperature is not None and self.temperature < 1e-6:
            raise Misuse(f"run: --temperature {self.temperature} must be above 0. For the best output, leave it out.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Misuse(f"run: --top-p {self.top_p} is no share of probability. Expected a number in (0, 1].")
        if self.temperature is None:
            self._check_search()
        elif self.beam_size is not None and self.beam_size > 1:
            raise Misuse(
                f"run: --temperature draws, --beam {self.beam_size} searches. Leave out one of the two; for several "
                "samples, give --n-best."
            )
        if self.max_length is not None and (self.min_length or 0) >= self.max_length:
            raise Misuse(f"run: --min-length {self.min_length} must be less than --max-length {self.max_length}.")

    def _check_search(self):
        drawing = next((name for name in _DRAWING if getattr(self, name) is not None), None)
        if drawing is not None:
            raise Misuse(f"run: {_flag(drawing)} is for outputs that are drawn. Give --temperature too, such as 1.0.")
        if self.beam_size is not None and self.n_best > self.beam_size:
            raise Misuse(
                f"run: --n-best {self.n_best} is more than --beam {self.beam_size}. Expected at most as many; raise "
                "--beam."
            )

    def check_given(self, targets: Sequence[str]) -> None:
        """Where the outputs are given, nothing may say how to search for them."""
        searching = [name for name in self.options() if name != "length_penalty"]
        if targets and searching:
            raise Misuse(f"run: {_flag(searching[0])} is of a search, but --target gives the output. Leave out one.")

    def options(self) -> dict[str, Any]:
        """What was said, as options of `model.run`."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        nothing = {"n_best": 1, "replace_unknown": False}
        return {name: value for name, value in found.items() if value is not None and value != nothing.get(name)}


def _flag(name: str) -> str:
    return {"beam_size": "--beam"}.get(name, "--" + name.replace("_", "-"))

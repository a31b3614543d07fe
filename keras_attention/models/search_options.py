"""`SearchOptions`: what a caller may say about how an output is found."""

from __future__ import annotations

import dataclasses
import math

__all__ = ["SearchOptions", "check_number", "check_range"]


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Settings of a search over the outputs of a model.

    Attributes:
        beam_size: int > 0; 1 is greedy.
        n_best: int, 1 … beam_size. How many outputs to return; of samples, how many to draw.
        length_penalty: float >= 0, the α of `decoding.length_penalty`.
        coverage_penalty: float >= 0, the β of `decoding.coverage_penalty`.
        max_length: int > 0. Longest output in pieces, the end included.
        min_length: int >= 0. Fewest pieces before the end.
        no_repeat_ngram: int >= 0. No n pieces in a row come twice; 0 allows it.
        temperature: float > 0, or None. Draws the output at random instead of searching for the best one; below 1
            favours what is probable.
        top_k: int >= 0. Draws among the k most probable pieces; 0 among all.
        top_p: float in (0, 1]. Draws among the fewest pieces whose probabilities sum to p.
        seed: int >= 0. Of the samples; an input draws the same whatever else is asked with it.
        replace_unknown: bool. Of a word-level vocabulary: each unknown word of the output becomes the word of the input
            that was looked at most when it was written.
        attention: bool. Also return the attention.
    """

    beam_size: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    max_length: int = 64
    min_length: int = 0
    no_repeat_ngram: int = 0
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    replace_unknown: bool = False
    attention: bool = True

    def __post_init__(self):
        check_range("beam_size", self.beam_size, 1, 10_000)
        check_range("n_best", self.n_best, 1, 10_000 if self.samples else self.beam_size)
        check_range("max_length", self.max_length, 1, 10_000)
        check_range("min_length", self.min_length, 0, self.max_length - 1)
        check_range("no_repeat_ngram", self.no_repeat_ngram, 0, 10_000)
        check_range("top_k", self.top_k, 0, 2**31 - 1)
        check_range("seed", self.seed, 0, 2**31 - 1)
        check_number("length_penalty", self.length_penalty, 0)
        check_number("coverage_penalty", self.coverage_penalty, 0)
        if self.temperature is not None:
            check_number("temperature", self.temperature, 1e-6)
        if isinstance(self.top_p, bool) or not isinstance(self.top_p, (int, float)) or not 0 < self.top_p <= 1:
            raise ValueError(f"`top_p` must be a number in (0, 1]. Received {self.top_p!r}.")
        if not self.samples and (self.top_k or self.top_p < 1):
            raise ValueError(
                "`top_k` and `top_p` choose among what is drawn, but nothing is drawn. Give a `temperature`, such as "
                "1.0, or leave them out."
            )
        if self.samples and self.beam_size > 1:
            raise ValueError(
                f"A sample is drawn, not searched for: beam_size must be 1 with a temperature. Received "
                f"{self.beam_size}. For several samples, give `n_best`."
            )

    @property
    def samples(self) -> bool:
        return self.temperature is not None

    @property
    def keeps_attention(self) -> bool:
        """Whether the weights must come back from the search."""
        return self.attention or self.replace_unknown


def check_range(name, value, low, high):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"`{name}` must be an int from {low} to {high}. Received {value!r}.")


def check_number(name, value, low):
    """`value` is a finite number, at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < math.inf:
        raise ValueError(f"`{name}` must be a number >= {low}. Received {value!r}.")

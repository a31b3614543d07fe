"""Scores of a translation model: BLEU and chrF by sacreBLEU, with signatures, and the paired bootstrap."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

TASKS = ("translation",)


def corpus_scores(task: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Scores outputs against references, as a corpus.

    Args:
        task: "translation": cased BLEU of detokenised text (tokenizer 13a) and chrF (character 6-grams), both 0 to 100.
        outputs: strings, one an example.
        references: for each example one reference or several; their number may vary.

    Returns:
        dict: "bleu", "bleu_signature", "chrf", "chrf_signature".

    Raises:
        ValueError: unknown task, no outputs, unequal numbers, or an example without a reference.
        ImportError: sacreBLEU is not installed.

    Example:
        >>> scores = corpus_scores("translation", ["Va te coucher maintenant."], [["Va te coucher maintenant."]])
        >>> round(scores["bleu"], 1)
        100.0
    """
    if task not in TASKS:
        raise ValueError(f"No scores for the task {task!r}. Expected one of {', '.join(TASKS)}.")
    streams = _reference_streams(outputs, references)
    scores: dict[str, Any] = {}
    for name, metric in _metrics().items():
        scores[name] = metric.corpus_score(list(outputs), streams).score
        scores[f"{name}_signature"] = metric.get_signature().format()
    return scores


def moses_tokens(text: str, language: str) -> str:
    """Text as published scores of Multi30k see it: lower case, punctuation normalised, Moses' tokens, spaces between.

    Raises:
        ImportError: sacremoses is not installed.
    """
    normalizer, tokenizer = _moses(language)
    return tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True, escape=True)


@functools.cache
def _moses(language: str):
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise ImportError(
            "Moses' tokens need the package sacremoses, which is not installed. "
            'Install it with: pip install "keras-attention-zoo[eval]"'
        ) from error
    return MosesPunctNormalizer(language), MosesTokenizer(language)


def tokenized_bleu(
    outputs: Sequence[str], tokenized_references: Sequence[Sequence[str]], language: str
) -> dict[str, Any]:
    """Lowercased tokenised BLEU, 0 to 100: what multi-bleu.perl printed, for comparison with published figures.

    Args:
        outputs: detokenised strings, one an example; they go through `moses_tokens`.
        tokenized_references: for each example one reference or several, as the data set has tokenised them.
        language: "de", "en", …: of Moses' rules.

    Returns:
        dict: "tokenized_bleu", "tokenized_bleu_signature".
    """
    streams = _reference_streams(outputs, tokenized_references)
    metric = require_scorer().metrics.BLEU(tokenize="none", force=True)
    score = metric.corpus_score([moses_tokens(text, language) for text in outputs], streams).score
    signature = f"case:lc|norm+tok:moses-{language}|{metric.get_signature().format()}"
    return {"tokenized_bleu": score, "tokenized_bleu_signature": signature}


def group_references(
    examples: Iterable[Mapping[str, str]], source: str = "source", target: str = "target"
) -> tuple[list[str], list[list[str]]]:
    """(distinct sources in the order they are first seen, for each all its distinct targets in their order)."""
    grouped: dict[str, dict[str, None]] = {}
    for example in examples:
        grouped.setdefault(example[source], {})[example[target]] = None
    return list(grouped), [list(targets) for targets in grouped.values()]


def evaluate(model, examples: Iterable[Mapping[str, str]], **decode_options) -> dict[str, Any]:
    """Runs a model on every distinct source of the examples and scores the outputs against all their targets.

    Args:
        model: a `TaskModel`; its first two `columns` are the input and the reference.
        examples: dicts with these columns; several examples with one source are one sentence with several references.
        **decode_options: passed on to `model.run`, e.g. `beam_size`.

    Returns:
        dict: "task", the scores and signatures of `corpus_scores`, "examples" (distinct sources), "seconds" (of
        decoding).
    """
    source, target = model.columns[:2]
    sources, references = group_references(examples, source, target)
    if not sources:
        raise ValueError("There are no examples to evaluate. Expected at least one; check the data file.")
    require_scorer()  # tell of a missing package before minutes of decoding
    started = time.perf_counter()
    predictions = model.run(sources, **decode_options)
    seconds = time.perf_counter() - started
    scores = corpus_scores(model.task, [prediction.output for prediction in predictions], references)
    return {"task": model.task, **scores, "examples": len(sources), "seconds": seconds}


def paired_bootstrap(
    outputs_a: Sequence[str],
    outputs_b: Sequence[str],
    references: Sequence[Sequence[str]],
    samples: int = 1000,
    seed: int = 12345,
) -> dict[str, dict[str, Any]]:
    """Is B better than A, or is it chance? Paired bootstrap resampling (Koehn, 2004), by sacreBLEU.

    Args:
        outputs_a: strings, one an example: the baseline.
        outputs_b: strings, one an example.
        references: for each example one reference or several.
        samples: int > 0. How many test sets to draw.
        seed: int.

    Returns:
        dict: "bleu" and "chrf", each a dict of "a" and "b" (scores), "difference" (b minus a), "mean_difference" (the
        same, mean over the samples), "p_value" (that a difference of this size in either direction comes by chance; 1
        where there is none), "interval_a" and "interval_b" (half the width of the 95 % confidence interval) and
        "signature".

    Raises:
        ValueError: `samples` < 1, unequal numbers of sentences, or an example without a reference.
        ImportError: sacreBLEU is not installed.
    """
    if samples < 1:
        raise ValueError(f"`samples` must be at least 1. Received {samples}. 1000 is usual.")
    streams = _reference_streams(outputs_a, references)
    _reference_streams(outputs_b, references)
    metrics = _metrics()
    significance = importlib.import_module("sacrebleu.significance")
    with _sacrebleu_seed(seed):
        signatures, results = significance.PairedTest(
            [("a", list(outputs_a)), ("b", list(outputs_b))], metrics, streams, test_type="bs", n_samples=samples
        )()
    # Both mappings are keyed by sacreBLEU's names ("BLEU", "chrF2"), in the order of `metrics`.
    return {
        name: _comparison(*results[key], signatures[key].format())
        for name, key in zip(metrics, signatures, strict=True)
    }


def _comparison(a, b, signature: str) -> dict[str, Any]:
    difference = float(b.score - a.score)
    return {
        "a": float(a.score),
        "b": float(b.score),
        "difference": difference,
        "mean_difference": float(b.mean - a.mean),
        # sacreBLEU gives equal outputs the smallest p, 1 / (samples + 1); no difference proves nothing.
        "p_value": float(b.p_value) if difference else 1.0,
        "interval_a": float(a.ci),
        "interval_b": float(b.ci),
        "signature": signature,
    }


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Sets the seed for the block: sacreBLEU takes it from the environment alone."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _reference_streams(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """References as sacreBLEU takes them: stream i has the i-th reference of each example, None where there is none."""
    if isinstance(outputs, str):
        raise TypeError(f"`outputs` is the string {outputs[:60]!r}. Expected a list of strings; put it in a list.")
    if not outputs or len(outputs) != len(references):
        raise ValueError(
            f"Expected as many outputs as lists of references, and at least one. Received {len(outputs)} outputs and "
            f"{len(references)} lists. Pass one list of references for each output, in the same order."
        )
    for number, texts in enumerate(references, start=1):
        if isinstance(texts, str):
            raise TypeError(
                f"The references of example {number} are the string {texts[:60]!r}. Expected a list of strings; put it "
                "in a list."
            )
        if not texts:
            raise ValueError(f"Example {number} has no reference. Expected at least one; add it or drop the example.")
    most = max(len(texts) for texts in references)
    return [[texts[index] if index < len(texts) else None for texts in references] for index in range(most)]


def _metrics() -> dict[str, Any]:
    """Name -> a fresh sacreBLEU metric (an instance keeps the number of references of its last call)."""
    metrics = require_scorer().metrics
    return {"bleu": metrics.BLEU(tokenize="13a"), "chrf": metrics.CHRF()}


def require_scorer() -> ModuleType:
    """The package that computes the scores; an ImportError that says what to install where it is missing."""
    try:
        return importlib.import_module("sacrebleu")
    except ImportError as error:
        raise ImportError(
            "Scores need the package sacrebleu, which is not installed. "
            'Install it with: pip install "keras-attention-zoo[eval]"'
        ) from error

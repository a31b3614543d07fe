"""`keras-attention evaluate`: test sets in, scores out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from keras_attention.cli.errors import Failure
from keras_attention.training import metrics, scoring
from keras_attention.training.formats import read_data
from keras_attention.training.readers import DataError, read_examples, read_lines


def read_columns(paths: Sequence[str], model, columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """(distinct sources, all references of each) of files of examples."""
    wanted = model.columns[:2]
    columns = columns or model.columns
    missing = [column for column in wanted if column not in columns]
    if missing:
        raise Failure(
            f"--columns {','.join(columns)} lacks {missing[0]!r}. Expected {' and '.join(wanted)} among them."
        )
    return metrics.group_references(read_examples(paths, columns=columns), *wanted)


def read_parallel(source_path: str, reference_paths: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """(sources, references of each) of a file of sources and files of as many references, line by line.

    An empty line among the references is a reference that is not there; each source needs one.
    """
    sources = list(read_lines(source_path))
    files = [list(read_lines(path)) for path in reference_paths]
    for path, lines in zip(reference_paths, files, strict=True):
        if len(lines) != len(sources):
            raise DataError(
                f"{path} has {len(lines)} lines, {source_path} has {len(sources)}. Expected a reference on line n for "
                "the source on line n; find the first line that is out of step."
            )
    references = [[text for text in texts if text.strip()] for texts in zip(*files, strict=True)]
    for number, (source, texts) in enumerate(zip(sources, references, strict=True), start=1):
        if not source.strip() or not texts:
            what = "is empty" if not source.strip() else "has no reference"
            raise DataError(f"{source_path}:{number}: the source {what}. Expected text; fill it in or delete the line.")
    return sources, references


def task_scores(model, paths: Sequence[str], columns: Sequence[str], format: str, limit: int | None) -> dict[str, Any]:
    """The scores of a model that writes no text, on files in the format of its recipe or another."""
    recipe = (getattr(model, "metadata", None) or {}).get("recipe", {}).get("data", {})
    format = format or recipe.get("format", "")
    options = recipe.get("options", {}) if format == recipe.get("format", "") else {}
    examples = read_data(paths, columns=columns or model.columns, format=format, **options)
    return scoring.evaluate(model, itertools.islice(examples, limit))


def scores(
    model, sources: Sequence[str], references: Sequence[Sequence[str]], options: dict[str, Any]
) -> dict[str, Any]:
    """As `training.metrics.evaluate`, for sources that may repeat, as a test set counts them."""
    metrics.corpus_scores(model.task, ["probe"], [["probe"]])  # tell of a missing package before minutes of decoding
    started = time.perf_counter()
    predictions = model.run(list(sources), **options)
    seconds = time.perf_counter() - started
    found = metrics.corpus_scores(model.task, [prediction.output for prediction in predictions], references)
    return {"task": model.task, **found, "examples": len(sources), "seconds": seconds}

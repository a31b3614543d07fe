"""From examples to token ids, with those that a model refuses named or left out."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from keras_attention.training.pipeline import TokenStore
from keras_attention.training.readers import DataError
from keras_attention.training.recipe import Recipe

logger = logging.getLogger(__name__)


def vectorized(
    model: keras.Model, examples: Iterable[Mapping[str, Any]] | TokenStore, recipe: Recipe, part: str, max_length: int
) -> tuple[TokenStore, list[Mapping[str, Any]]]:
    """The ids of examples, and the examples that they belong to.

    Args:
        model: a `TaskModel`; its `vectorize` may refuse an example with a ValueError.
        examples: example dicts, or a `TokenStore`, which is taken as it is.
        recipe: `Recipe`; with `data.skip_bad`, refused examples are counted instead of raised.
        part: str. What the examples are for, in messages.
        max_length: int. Examples with a column of more tokens are left out; 0 keeps all.

    Raises:
        DataError: the model refuses an example, or none is left.
    """
    if isinstance(examples, TokenStore):
        return examples, []
    rows = _Rows(model, examples, recipe.data.skip_bad, part, max_length)
    try:
        store = TokenStore.from_examples(rows)
    except ValueError as error:
        if rows.kept or isinstance(error, DataError):
            raise
        raise DataError(
            f"There is no {part} example left ({rows.refused} refused, {rows.too_long} too long). "
            "Expected at least one; check the file and training.max_length."
        ) from error
    if rows.refused or rows.too_long:
        logger.warning(
            "Of the %s examples %d were refused and %d are too long; %d are left.",
            part, rows.refused, rows.too_long, len(store),
        )  # fmt: skip
    return store, rows.kept


class _Rows:
    """Iterates over the ids of examples; keeps the examples that they belong to, and counts the others."""

    def __init__(self, model: keras.Model, examples: Iterable[Mapping], skip_bad: bool, part: str, max_length: int):
        self.model, self.examples, self.skip_bad, self.part = model, examples, skip_bad, part
        self.max_length = max_length
        self.kept: list[Mapping[str, Any]] = []
        self.refused = self.too_long = 0

    def __iter__(self) -> Iterator[dict[str, list[int]]]:
        for number, example in enumerate(self.examples, start=1):
            ids = self._ids(number, example)
            if ids is None:
                self.refused += 1
            elif self.max_length and max(map(len, ids.values())) > self.max_length:
                self.too_long += 1
            else:
                self.kept.append(example)
                yield ids

    def _ids(self, number: int, example: Mapping[str, Any]) -> dict[str, list[int]] | None:
        try:
            return self.model.vectorize(example)
        except ValueError as error:
            if self.skip_bad:
                return None
            where = getattr(example, "where", "")
            what = f"{where}: The model refuses this" if where else f"The model refuses {self.part} example {number}"
            raise DataError(f"{what}: {error} Correct or drop it, or set data.skip_bad.") from error


def fingerprint(store: TokenStore) -> str:
    """A check sum over all ids, in their order."""
    total = 0
    for name in store.columns:
        total = zlib.crc32(store.flat[name].tobytes(), zlib.crc32(store.offsets[name].tobytes(), total))
    return f"{len(store)}-{total:08x}"

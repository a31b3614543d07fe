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
    kept: list[Mapping[str, Any]] = []
    left_out = {"refused": 0, "too long": 0}

    def rows() -> Iterator[dict[str, list[int]]]:
        for number, example in enumerate(examples, start=1):
            try:
                ids = model.vectorize(example)
            except ValueError as error:
                if not recipe.data.skip_bad:
                    raise DataError(
                        f"The model refuses {part} example {number}: {error} Correct or drop it, or set data.skip_bad."
                    ) from error
                left_out["refused"] += 1
                continue
            if max_length and max(map(len, ids.values())) > max_length:
                left_out["too long"] += 1
                continue
            kept.append(example)
            yield ids

    packed = list(rows()) if part == "validation" else rows()
    try:
        store = TokenStore.from_examples(packed)
    except DataError:
        raise
    except ValueError as error:
        if kept:
            raise
        raise DataError(
            f"There is no {part} example left ({left_out['refused']} refused, {left_out['too long']} too long). "
            "Expected at least one; check the file and training.max_length."
        ) from error
    if any(left_out.values()):
        logger.warning(
            "Of the %s examples %d were refused and %d are too long; %d are left.",
            part, left_out["refused"], left_out["too long"], len(store),
        )  # fmt: skip
    return store, kept


def fingerprint(store: TokenStore) -> str:
    """A check sum over all ids, in their order."""
    total = 0
    for name in store.columns:
        total = zlib.crc32(store.flat[name].tobytes(), zlib.crc32(store.offsets[name].tobytes(), total))
    return f"{len(store)}-{total:08x}"

"""The formats of data files by name, as a recipe has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keras_attention.training.babi import read_babi
from keras_attention.training.conll import read_conll
from keras_attention.training.propositions import read_propositions
from keras_attention.training.readers import FORMATS, BadLines, PathLike, read_examples
from keras_attention.training.relations import read_relations

# Formats whose examples have columns of their own; the others are those of `read_examples`.
READERS: dict[str, Callable[..., Iterator]] = {
    "babi": read_babi,
    "conll": read_conll,
    "propositions": read_propositions,
    "relations": read_relations,
}


def read_data(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: Sequence[str],
    format: str = "",
    skip_bad: bool = False,
    bad_lines: BadLines | None = None,
    places: Mapping[str, int] | None = None,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Examples from files of any format.

    Args:
        paths: a path or several.
        columns: names of the columns of "tsv", "jsonl" and "parallel" files; other formats have their own.
        format: one of `readers.FORMATS` or of `READERS`; "" tells it from the names of the files.
        skip_bad: bool. Skip bad lines instead of raising.
        bad_lines: `BadLines` that counts what was skipped.
        places: of formats whose lines are cells, such as "conll": name -> its place in the line, from 0; None takes
            that of the reader.
        options: what else the reader of the format takes.

    Raises:
        DataError: see the reader.
        ValueError: an unknown format, or an option that its reader does not take.
    """
    known = (*FORMATS, *READERS)
    if format and format not in known:
        raise ValueError(f"Unknown format {format!r}. Expected one of {', '.join(known)}.")
    reader = READERS.get(format, read_examples)
    if reader is read_examples:
        options |= {"columns": columns, "format": format or None}
    if places is not None:
        options |= {"places": places} if reader is read_examples else {"columns": places}
    taken = inspect.signature(reader).parameters
    if "skip_bad" in taken:
        options |= {"skip_bad": skip_bad, "bad_lines": bad_lines}
    elif skip_bad:
        raise ValueError(f"Files of the format {format!r} are read whole or not at all. Leave `skip_bad` out.")
    for name in options:
        if name not in taken:
            raise ValueError(
                f"The format {format or 'of these files'!r} has no option {name!r}. Expected some of "
                f"{', '.join(one for one in taken if one not in ('paths', 'limits'))}."
            )
    return reader(paths, **options)

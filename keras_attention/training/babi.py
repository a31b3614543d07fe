"""Reader of the bAbI tasks: numbered lines of stories, with questions among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_attention.training.readers import DataError, Limits, Located, PathLike, _cut, read_each

_LIMITS = Limits()
_NUMBERED = re.compile(r"(\d+) (.*)")
_TASK = re.compile(r"qa(\d+)_")  # begins the names of the files


def read_babi(paths: PathLike | Sequence[PathLike], *, limits: Limits = _LIMITS) -> Iterator[dict[str, Any]]:
    """Reads one example for each question, with the story as far as it has got. Files are plain or gzipped.

    The format of Weston et al., 2015 (arXiv 1502.05698): each line has a number, which starts at 1 with each story; a
    question has its answer and the numbers of the lines that support it behind it, with tabs between.

    Args:
        paths: a path or several, read one after the other.
        limits: `Limits` on lines and on what gz may unfold to.

    Returns:
        An iterator of dicts: "story", a list of sentences, none of them a question; "question"; "answer", a str, one
        with commas where several are asked for; "supporting", the places in the story of the sentences that tell it.
        From a file named as they name them, such as qa1_…, also "task", its number.

    Raises:
        DataError: a missing or damaged file, a line without a number, numbers out of order, a question without an
            answer, or with support that is no sentence before it.

    Example:
        >>> next(read_babi("qa1_single-supporting-fact_train.txt.gz"))     # doctest: +SKIP
        {'story': ['Mary moved to the bathroom.', 'John went to the hallway.'], 'question': 'Where is Mary?', …}
    """
    return read_each(paths, _examples, limits)


def _examples(name: str, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    story: list[str] = []
    places: dict[int, int] = {}  # number of a line -> its place in the story
    last, questions = 0, 0
    named = _TASK.match(Path(name).name)
    task = {"task": int(named[1])} if named else {}
    for at, line in enumerate(lines, start=1):
        where = f"{name}:{at}"
        if not line.strip():
            continue
        number, text = _numbered(where, line)
        if number == 1:
            story, places = [], {}
        elif number != last + 1:
            raise DataError(
                f"{where}: line number {number} follows {last}. Expected {last + 1}, or 1 for a new story; mend the "
                "numbers."
            )
        last = number
        if "\t" in text:
            questions += 1
            yield Located.at(where, {"story": list(story), **_question(where, text, places), **task})
        else:
            places[number] = len(story)
            story.append(text.strip())
    if not questions:
        raise DataError(f"{name}: there is no question in it. Expected lines with a tab before the answer.")


def _numbered(where: str, line: str) -> tuple[int, str]:
    found = _NUMBERED.fullmatch(line)
    if not found or not found[2].strip():
        raise DataError(
            f"{where}: {_cut(line)!r} is no numbered line. Expected a number, a space and a sentence, such as "
            "'1 Mary moved to the bathroom.'."
        )
    return int(found[1]), found[2]


def _question(where: str, text: str, places: dict[int, int]) -> dict[str, Any]:
    question, *behind = (part.strip() for part in text.split("\t"))
    if len(behind) not in (1, 2) or not question or not behind[0]:
        raise DataError(
            f"{where}: {_cut(text)!r} is no question. Expected question, tab, answer, tab, numbers of the lines that "
            "support it."
        )
    supporting = behind[1].split() if len(behind) == 2 else []
    for one in supporting:
        if not one.isdecimal() or int(one) not in places:
            raise DataError(
                f"{where}: {one!r} supports the answer, and is no sentence of the story before. Expected numbers out "
                f"of {_cut(', '.join(map(str, places)))}."
            )
    return {"question": question, "answer": behind[0], "supporting": [places[int(one)] for one in supporting]}

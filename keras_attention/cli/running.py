"""`keras-attention run`: lines in, lines out, none lost and none out of order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keras_attention.cli import paths
from keras_attention.cli.errors import Failure, Misuse, say
from keras_attention.text import normalize
from keras_attention.training.readers import BadLines, DataError, read_lines

PICTURES = (".png", ".svg", ".html")


@dataclass(frozen=True)
class Input:
    """One input.

    Attributes:
        text: str. The first column that the model reads, or a line with all of them, tabs between.
        where: str. What messages call it.
        problem: str. Why the model cannot be asked; "" where it can.
        target: str. An output that is given, to be scored; "" where one is searched for.
        beside: tuple of str. The further columns that the model reads, where they are given by themselves.
    """

    text: str
    where: str
    problem: str = ""
    target: str = ""
    beside: tuple[str, ...] = ()

    def columns(self, wanted: Sequence[str]) -> dict[str, str]:
        """The columns that a model wants.

        Raises:
            ValueError: there are more or fewer.
        """
        if self.beside and len(wanted) < 2:
            raise ValueError(f"--with is for a second column, and this model reads one, {wanted[0]}. Leave it out.")
        texts = [self.text]
        if len(wanted) > 1:
            texts = [self.text, *self.beside] if self.beside else self.text.split("\t")
        if len(texts) != len(wanted):
            ways = " and ".join(["TEXT", *["--with TEXT"] * (len(wanted) - 1)])
            are = "is" if len(texts) == 1 else "are"
            raise ValueError(
                f"this model reads {' and '.join(wanted)}, and {len(texts)} of them {are} given. Give {ways}, or lines "
                "with a tab between them."
            )
        return dict(zip(wanted, texts, strict=True))


@dataclass
class _Positions(BadLines):
    """Keeps the place of each line: `read_lines` passes good ones on and hands bad ones to this, in their order."""

    rows: list[Input] = field(default_factory=list)
    file: str = ""

    def add(self, error: DataError) -> None:
        super().add(error)
        self.place("", str(error))

    def place(self, text: str, problem: str = "") -> None:
        self.rows.append(Input(text, f"{self.file}:{len(self.rows) + 1}", problem))


def from_arguments(texts: Sequence[str], name: str = "TEXT") -> list[Input]:
    """The texts of the command line; an empty one is refused."""
    inputs = [Input(text, name if len(texts) == 1 else f"{name} {place}") for place, text in enumerate(texts, 1)]
    for one in inputs:
        try:
            one.text.encode()
        except UnicodeEncodeError:
            raise Failure(f"{one.where} is not UTF-8. Expected UTF-8; set the terminal to it.") from None
        if not normalize(one.text):
            raise Failure(f"{one.where} is empty. Expected at least one word; write it in quotes.")
    return inputs


def from_whole(file: str) -> list[Input]:
    """All lines of a file as one input, such as a document.

    Raises:
        Failure: it is empty.
        DataError: the file cannot be read.
    """
    name = "<stdin>" if file == "-" else file
    text = "\n".join(read_lines(file))
    if not normalize(text):
        raise Failure(f"{name} is empty. Expected at least one word.")
    return [Input(text, name)]


def with_further(inputs: Sequence[Input], texts: Sequence[str]) -> list[Input]:
    """The inputs with what `--with` gives to each: all of the first input's, then those of the second, and so on.

    Raises:
        Failure: they cannot be shared out evenly, or one is empty.
    """
    found = [one.text for one in from_arguments(texts, "--with")]
    each, left = divmod(len(found), len(inputs))
    if left:
        raise Failure(
            f"There are {len(inputs)} inputs and {len(found)} --with. Expected as many for each input, in their order."
        )
    return [replace(one, beside=tuple(found[row * each : (row + 1) * each])) for row, one in enumerate(inputs)]


def from_file(file: str, skip_bad: bool, warns: bool = True) -> list[Input]:
    """The lines of a file or, for "-", of standard input. An empty line stays, with its problem.

    Raises:
        DataError: the file or, without `skip_bad`, a line cannot be read.
    """
    positions = _Positions(file="<stdin>" if file == "-" else file)
    for line in read_lines(file, skip_bad=skip_bad, bad_lines=positions):
        positions.place(line, "" if normalize(line) else "empty")
    if warns:
        _warn([row for row in positions.rows if row.problem == "empty"], "empty")
    return positions.rows


def with_targets(inputs: Sequence[Input], texts: Sequence[str] | None, file: str | None) -> list[Input]:
    """The inputs with the outputs that are to be scored, from the command line or from the lines of a file.

    Raises:
        Failure: there are more inputs than outputs or the other way round, or an output is empty beside an input that
            is not.
    """
    found = from_arguments(texts, "--target") if texts else from_file(file, skip_bad=False, warns=False)
    if len(found) != len(inputs):
        raise Failure(
            f"There are {len(inputs)} inputs and {len(found)} outputs to score. Expected one output for each input; "
            "find the first line that is out of step."
        )
    for one, target in zip(inputs, found, strict=True):
        if target.problem and not one.problem:
            raise Failure(f"{target.where} is empty. Expected the output of {one.where}.")
    return [replace(one, target=target.text) for one, target in zip(inputs, found, strict=True)]


def checked(model, inputs: Sequence[Input], skip_bad: bool) -> list[Input]:
    """The inputs, with those that the model refuses marked; without `skip_bad` the first of them is an error."""
    wanted = model.columns[: model.input_columns]
    if model.input_columns > 1 and any(one.target for one in inputs):
        raise Failure(f"This model reads {' and '.join(wanted)}, and writes no text that --target could give.")
    judged = []
    for one in inputs:
        if not one.problem:
            try:
                target = {model.columns[-1]: one.target} if one.target else {}
                model.vectorize(model.as_example(one.columns(wanted)) | target)
            except ValueError as error:
                if not skip_bad:
                    raise DataError(f"{one.where}: {error}") from error
                one = replace(one, problem=f"{one.where}: {error}")
        judged.append(one)
    _warn([one for one in judged if one.problem not in ("", "empty")], "bad")
    return judged


def _warn(rows: Sequence[Input], kind: str) -> None:
    if rows:
        lines = f"{len(rows)} {kind} line{'s' * (len(rows) > 1)}"
        first = rows[0].where if rows[0].problem == "empty" else rows[0].problem
        say(f"warning: {lines} gave empty output; the first: {first}")


def predicted(model, inputs: Sequence[Input], options: dict[str, Any]) -> list:
    """For each input its `Prediction`, or None where it has a problem."""
    asked = [one for one in inputs if not one.problem]
    if any(one.target for one in asked):
        options = {**options, "targets": [one.target for one in asked]}
    wanted = model.columns[: model.input_columns]
    try:
        found = iter(model.run([one.columns(wanted) for one in asked], **options))
    except TypeError as error:
        if "has no option" in str(error):
            raise Misuse(f"run: {error}") from error
        raise
    return [None if one.problem else next(found) for one in inputs]


def map_paths(file: str | None, count: int) -> list[Path | None]:
    """Where the maps of each input go: for several inputs the file's name with their numbers.

    Raises:
        Misuse: the suffix is of no picture or page.
        Failure: the place cannot be written.
    """
    if file is None or file == "-":
        return [None] * count
    path = Path(file)
    if path.suffix.lower() not in PICTURES:
        raise Misuse(f"run: --attention {file!r} must end in {', '.join(PICTURES)}, or be - for the terminal.")
    numbered = [path] if count == 1 else [path.with_stem(f"{path.stem}-{number}") for number in range(1, count + 1)]
    paths.check_files(numbered)
    return numbered


def text_lines(prediction, n_best: int) -> Iterator[str]:
    """The output; of several, each with its score before it."""
    if n_best == 1:
        yield "" if prediction is None else as_line(prediction.output)
    elif prediction is not None:
        for one in (prediction, *prediction.alternatives):
            yield f"{one.score:.4f}\t{as_line(one.output)}"


def as_line(output) -> str:
    """An output for people: text as it is, tagged words as word/TAG."""
    return output if isinstance(output, str) else " ".join("/".join(pair) for pair in output)


def json_line(one: Input, prediction) -> str:
    """One input with all that was found, as one line of JSON."""
    found = (
        {"output": "", "score": None, "attention": [], "alternatives": []} if prediction is None else _plain(prediction)
    )
    given: dict[str, Any] = {"input": one.text}
    if one.beside:
        given["with"] = one.beside[0] if len(one.beside) == 1 else list(one.beside)
    return json.dumps({**given, **found}, ensure_ascii=False)


def _plain(prediction, with_alternatives: bool = True) -> dict[str, Any]:
    maps = [one.to_dict() for one in prediction.attention]
    keys = ("name", "rows", "columns", "weights")
    attention = [{key: one[key] for key in (*keys, *(["axes"] if one["axes"] else []))} for one in maps]
    values = {"output": prediction.output, "score": prediction.score, "attention": attention}
    if "log_probability" not in prediction.extra and prediction.extra:  # of text, the score says it
        values["extra"] = prediction.extra
    if with_alternatives:
        values["alternatives"] = [_plain(one, with_alternatives=False) for one in prediction.alternatives]
    return values


def rendered(inputs: Sequence[Input], predictions: Sequence, n_best: int, as_json: bool) -> list[list[str]]:
    """The lines of each input."""
    if as_json:
        return [[json_line(one, prediction)] for one, prediction in zip(inputs, predictions, strict=True)]
    blocks = [[*text_lines(prediction, n_best)] for prediction in predictions]
    return blocks if n_best == 1 or len(blocks) == 1 else [[*block, ""] for block in blocks]


def write(blocks: Sequence[Sequence[str]], out: str | None, predictions: Sequence, show_maps: bool) -> None:
    """Writes the lines to the file in one piece or to stdout, and maps for the terminal below them."""
    if out is not None:
        from keras_attention.maps.files import write_atomically

        write_atomically(out, "".join(f"{line}\n" for block in blocks for line in block).encode())
    for block, prediction in zip(blocks, predictions, strict=True):
        if out is None:
            sys.stdout.write("".join(f"{line}\n" for line in block))
        if show_maps and prediction is not None:
            sys.stdout.write("".join(f"{one.text()}\n\n" for one in prediction.attention))


def draw(predictions: Sequence, files: Sequence[Path | None]) -> None:
    """Writes the maps; of several maps of one input, each with its name."""
    for prediction, file in zip(predictions, files, strict=True):
        if file is None or prediction is None:
            continue
        for one in prediction.attention:
            path = file if len(prediction.attention) == 1 else file.with_stem(f"{file.stem}-{one.name}")
            if path.suffix.lower() == ".html":
                one.html(path)
            else:
                one.plot(path)

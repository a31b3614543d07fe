"""The subcommands and their options. What they do lies in the modules beside this one."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keras_attention import __version__
from keras_attention.cli.errors import Failure, Misuse
from keras_attention.cli.search_flags import SearchFlags

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Small attention models that run offline: use them, look at what they look at, train and export them.",
    epilog='\b\nExample:\n  keras-attention run nmt_luong "Where is the library?"',
)

EntryName = Annotated[str, typer.Argument(metavar="ENTRY", help="Name of a zoo entry, or folder of a preset or run.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses of the search; 1 is greedy. Default: the model's.")]


class Strategy(StrEnum):
    """Where a training runs."""

    AUTO = "auto"
    ONE = "one"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi-worker"


class Format(StrEnum):
    """What an export writes."""

    SAVED_MODEL = "saved_model"
    TFLITE = "tflite"
    ONNX = "onnx"


class Signature(StrEnum):
    """What an exported function reads."""

    TEXT = "text"
    IDS = "ids"


class Quantization(StrEnum):
    """How weights are stored in fewer bits."""

    FLOAT16 = "float16"
    INT8 = "int8"


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit status.

    Raises:
        Misuse: an unknown command or option, or a bad value.
    """
    command = typer.main.get_command(app)
    options = {"prog_name": "keras-attention", "standalone_mode": False}
    if not arguments:
        with contextlib.redirect_stdout(sys.stderr):
            command.main(["--help"], **options)
        return 2
    # The parser's own error class, wherever this version of typer has it from.
    parser_error = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    try:
        return command.main(arguments, **options) or 0
    except parser_error as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "keras-attention"
        where = "".join(f"{part}: " for part in path.split()[1:])
        raise Misuse(f"{where}{error.format_message().rstrip('.')}. See `{path} --help`.") from error
    except typer.Abort:
        return 130
    except SystemExit as stop:  # how the parser ends where the reader of stdout is gone
        return int(stop.code or 0)


def _example(*lines: str) -> str:
    return "\b\nExample:\n" + "\n".join(f"  keras-attention {line}" for line in lines)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"keras-attention {__version__}")
        raise typer.Exit()


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command("list", epilog=_example("list"))
def list_entries(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False) -> None:
    """List the zoo: entry, task, size, licence of the weights, main score."""
    from keras_attention.cli import listing

    listing.show(as_json)


@app.command("show", epilog=_example("show nmt_luong"))
def show_card(entry: EntryName) -> None:
    """Show the card of an entry: what it does, how well, and from which data."""
    from keras_attention import zoo

    print(zoo.card(entry).rstrip("\n"))


@app.command(
    "run",
    epilog=_example('run nmt_luong "Where is the library?" --attention -', "run nmt_luong --file in.txt --out out.txt"),
)
def run_model(
    entry: EntryName,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Inputs, each in quotes.")] = None,
    second: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="TEXT", help="What the model reads besides, for each TEXT; again for a third."),
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="F|-", help="File of one input a line; - is stdin.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="All of the file is one input, such as a document.")] = False,
    out: Annotated[str | None, typer.Option(metavar="F", help="File for the output, written in one piece.")] = None,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(min=1, help="How many outputs of each input, with their scores.")] = 1,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="How much longer outputs are favoured; default: the model's.")
    ] = None,
    coverage_penalty: Annotated[
        float | None, typer.Option(min=0, help="How much it costs to leave places of the input unseen.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Longest output, in tokens.")] = None,
    min_length: Annotated[int | None, typer.Option(min=0, help="Shortest output, in tokens before the end.")] = None,
    no_repeat_ngram: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="No N tokens in a row come twice.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Draw the output at random; below 1 favours what is probable.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", min=1, help="Draw among the K likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Draw among the likeliest tokens that have P of the probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of what is drawn; default: 0.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Unknown words become input words (vocabularies of words only).")
    ] = False,
    target: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Score this output, one for each input TEXT.")
    ] = None,
    targets: Annotated[str | None, typer.Option(metavar="F", help="File of outputs to score, beside --file.")] = None,
    attention: Annotated[
        str | None, typer.Option(metavar="F.png|F.svg|F.html|-", help="Where to draw the attention; - is the terminal.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Empty output for a line that cannot be read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each input.")] = False,
) -> None:
    """Run a model on texts or on the lines of a file."""
    from keras_attention.cli import paths, running, tensorflow_models

    if bool(texts) == (file is not None):
        raise Misuse("run: Give either TEXT or --file F (- for stdin). See `keras-attention run --help`.")
    if as_json and attention == "-":
        raise Misuse("run: --json and --attention - both want stdout. Leave out one: the JSON holds the weights.")
    flags = SearchFlags(
        beam, n_best, length_penalty, coverage_penalty, max_length, min_length, no_repeat_ngram, temperature, top_k,
        top_p, seed, replace_unknown,
    )  # fmt: skip
    if (target and file is not None) or (targets is not None and texts):
        raise Misuse("run: --target goes with TEXT, --targets with --file. Give the outputs as the inputs are given.")
    flags.check_given(target or targets or ())
    if (whole or second) and (bool(second) == bool(file) or whole == bool(texts)):
        raise Misuse("run: --with goes with TEXT, --whole with --file. Give each beside its own.")
    if whole:
        inputs = running.from_whole(file)
    else:
        inputs = running.from_file(file, skip_bad) if file is not None else running.from_arguments(texts)
    if second:
        inputs = running.with_further(inputs, second)
    if target or targets is not None:
        inputs = running.with_targets(inputs, target, targets)
    pictures = running.map_paths(attention, len(inputs))
    paths.check_files([Path(out)] if out is not None else [])
    model = tensorflow_models.load(entry)
    inputs = running.checked(model, inputs, skip_bad)
    options = {**flags.options(), "attention": as_json or attention is not None}
    predictions = running.predicted(model, inputs, options)
    running.write(running.rendered(inputs, predictions, n_best, as_json), out, predictions, attention == "-")
    running.draw(predictions, pictures)


@app.command(
    "train",
    epilog=_example("train nmt_luong --train train.tsv --valid valid.tsv --out runs/first --set training.epochs=5"),
)
def train_model(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|ENTRY", help="YAML file, or the name of an entry.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder of the run; the best model comes to RUN/best.")],
    train: Annotated[list[str] | None, typer.Option(metavar="F", help="Training examples; may be repeated.")] = None,
    valid: Annotated[list[str] | None, typer.Option(metavar="F", help="Validation examples; may be repeated.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the recipe; may be repeated."),
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="Devices; auto takes all GPUs of this machine.")] = Strategy.AUTO,
    resume: Annotated[bool, typer.Option(help="Continue what RUN holds, or start over.")] = True,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Take this tokenizer; default: learn one.")
    ] = None,
) -> None:
    """Train a model by a recipe, on your files."""
    from keras_attention.cli import paths, tensorflow_models, training

    resolved = training.overridden(training.find_recipe(recipe), settings or [])
    paths.check_folder(out)
    tensorflow_models.prepare()
    devices = training.make_strategy(strategy)
    from keras_attention.training import TrainingError, session

    try:
        done = session.train(
            resolved, out, train or (), valid or (), strategy=devices, tokenizer_folder=tokenizer, resume=resume
        )
    except TrainingError as error:
        raise Failure(str(error)) from error
    print(
        f"{done.metric} {done.best_metric:.4g} at step {done.best_step} of {done.steps}, {done.minutes:.1f} minutes "
        f"({done.stopped_because})"
    )
    print(out / "best")


@app.command(
    "evaluate",
    epilog=_example("evaluate nmt_luong --data test.tsv", "evaluate nmt_luong --data test.en --references test.fr"),
)
def evaluate_model(
    entry: EntryName,
    data: Annotated[list[str], typer.Option(metavar="F", help="Examples; with --references, one source a line.")],
    references: Annotated[
        list[str] | None, typer.Option(metavar="F", help="One reference a line; may be repeated.")
    ] = None,
    columns: Annotated[str, typer.Option(metavar="A,B", help="Columns of the data; default: those of the model.")] = "",
    format: Annotated[str, typer.Option(help="Format of the data; default: the recipe's, or by the suffix.")] = "",
    beam: Beam = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many inputs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Score a model on a test set."""
    from keras_attention.cli import evaluation, tensorflow_models

    if references and (len(data) > 1 or columns):
        raise Misuse("evaluate: With --references, give one --data file of plain lines, and no --columns.")
    pairs = evaluation.read_parallel(data[0], references) if references else None
    model = tensorflow_models.load(entry)
    names = [name.strip() for name in columns.split(",")] if columns else []
    options = {} if beam is None else {"beam_size": beam}
    if model.generates:
        sources, targets = pairs or evaluation.read_columns(data, model, names)
        scores = evaluation.scores(model, sources[:limit], targets[:limit], {"attention": False, **options})
    elif pairs or options:
        raise Misuse(f"evaluate: --references and --beam are for models that write text, not for {model.task}.")
    else:
        scores = evaluation.task_scores(model, data, names, format, limit)
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
    else:
        print(
            "\n".join(
                f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}"
                for name, value in scores.items()
            )
        )


@app.command("export", epilog=_example("export nmt_luong --to tflite --out nmt.tflite --quantize int8"))
def export_model(
    entry: EntryName,
    to: Annotated[Format, typer.Option(help="Format.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="File, or folder for saved_model.")],
    signature: Annotated[Signature | None, typer.Option(help="What it reads; saved_model: text has ids too.")] = None,
    quantize: Annotated[Quantization | None, typer.Option(help="Store the weights in fewer bits (tflite).")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses of the search; 1 is greedy, and the default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")] = False,
) -> None:
    """Write a model in a format that runs without this library."""
    from keras_attention.cli import paths, tensorflow_models

    if to is Format.ONNX:
        raise Failure("This version writes saved_model and tflite, not onnx. Choose one of these with --to.")
    if to is Format.SAVED_MODEL and quantize:
        raise Misuse("export: --quantize is for tflite; a saved_model keeps its weights. Leave it out.")
    if to is Format.TFLITE and signature is Signature.TEXT:
        raise Failure("This version writes tflite with the signature ids, not text. Leave --signature out.")
    if to is Format.TFLITE:
        paths.check_files([out])
    else:
        paths.check_folder(out)
    model = tensorflow_models.load(entry)
    from keras_attention import export

    options = {} if beam is None else {"beam_size": beam}
    try:
        if to is Format.TFLITE:
            report = export.to_tflite(model, out, quantize=quantize and quantize.value, **options)
        else:
            wanted = signature.value if signature else "ids" if model.tokenizer is None else "text"
            report = export.to_saved_model(model, out, signature=wanted, **options)
    except export.ExportError as error:
        raise Failure(str(error)) from error
    print(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else f"{report.path}\n{report.sidecar}")


@app.command("tensorboard", epilog=_example("tensorboard runs/first --port 6006"))
def start_tensorboard(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 6006,
) -> int:
    """Start TensorBoard on a run: losses, scores, attention."""
    if not run_folder.is_dir():
        raise Failure(f"There is no folder {run_folder}. Expected the --out of a training; check the path.")
    events = run_folder / "tensorboard"
    command = [
        "-m",
        "tensorboard.main",
        "--logdir",
        str(events if events.is_dir() else run_folder),
        "--port",
        str(port),
    ]
    return subprocess.call([sys.executable, *command])

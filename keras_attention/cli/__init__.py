"""The command `keras-attention`: text to stdout, progress and warnings to stderr.

The exit status is 0, 1 or 2: done, failed, misused. Nothing heavy is imported here: `list` answers before TensorFlow,
or even the parser of the other commands, would be loaded.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence

from keras_attention.cli.errors import Failure, Misuse, one_line, say

__all__ = ["main"]

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: strings; those of the process by default.

    Returns:
        The exit status: 0 done, 1 failed, 2 misused, 130 interrupted. What is wrong is told in one line on stderr.
    """
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported, or it has no effect
    if hasattr(sys.stdout, "reconfigure") and (sys.stdout.encoding or "").lower() != "utf-8":
        sys.stdout.reconfigure(encoding="utf-8")
    with _warnings_in_one_line():
        status = _guarded(arguments)
    try:
        sys.stdout.flush()
    except OSError:  # told already; or Python would tell it again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _guarded(arguments: list[str]) -> int:
    """The exit status; expected errors become one line."""
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except Misuse as error:
        say(str(error))
        return MISUSED
    except BrokenPipeError:  # the reader, such as `head`, has what it wanted
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (Failure, ValueError, OSError, ImportError) as error:
        say(one_line(error))
        return FAILED


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["list"] and set(arguments[1:]) <= {"--json"}:
        from keras_attention.cli import listing

        listing.show(as_json="--json" in arguments)
        return DONE
    from keras_attention.cli import app

    return app.run(arguments)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Python's warnings and the library's log messages, as lines of this command on stderr."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(record.getMessage())

    logger, handler = logging.getLogger("keras_attention"), Handler(logging.WARNING)
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    show = warnings.showwarning
    warnings.showwarning = lambda message, *_args, **_options: say(f"warning: {message}")
    try:
        yield
    finally:
        warnings.showwarning = show
        logger.propagate = propagate
        logger.removeHandler(handler)

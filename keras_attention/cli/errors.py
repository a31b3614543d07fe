"""How the command says what went wrong."""

from __future__ import annotations

import sys


class Misuse(Exception):
    """The command line itself is wrong: exit status 2."""


class Failure(Exception):
    """What was asked for could not be done, and the message says why: exit status 1."""


def say(message: str) -> None:
    """One line on stderr."""
    print(f"keras-attention: {' '.join(message.split())}", file=sys.stderr)


def one_line(error: Exception) -> str:
    """The message of an error, with the file where only the system's part tells of it."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return str(error) or type(error).__name__

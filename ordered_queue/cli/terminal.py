"""Standard input, output and error, and questions."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

from rich.console import Console

PIPE_WIDTH = 400
"""Wide enough that no line for another program is ever wrapped or cut."""


class _PipedConsole(Console):
    """A console that leaves a broken pipe to `main`, like every other write does."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the BrokenPipeError


def prepare_streams() -> None:
    """Make standard output and standard error fit to be written to.

    One that was closed (``>&-``) is None in Python: what is written goes nowhere, as with ``>/dev/null``. What the
    encoding of the output lacks is shown escaped, as Python does on standard error.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Send what is still buffered nowhere: Python flushes at exit and would complain of a failed write again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_input_a_terminal() -> bool:
    """Whether a human types the input. Standard input is None if it was closed (``<&-``)."""
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # see above


def output() -> Console:
    """Standard output: tables fit the terminal, and are never cut for another program."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return _PipedConsole(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def say(message: str) -> None:
    """A line for a human; nothing of a command's work hangs on it, so a failure to write it stops nothing."""
    with suppress(OSError):
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


def put(line: str) -> None:
    """A line of result."""
    sys.stdout.write(f"{line}\n")


def is_confirmed(question: str, yes: bool) -> bool:
    """Ask a human; where there is none to ask, or `yes` was said beforehand, the answer is yes."""
    if yes or not (is_input_a_terminal() and sys.stderr.isatty()):
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""Standard output, standard error and questions."""

from __future__ import annotations

import sys

from rich.console import Console

PIPE_WIDTH = 400
"""Wide enough that no line for another program is ever wrapped or cut."""


class _PipedConsole(Console):
    """A console that leaves a broken pipe to `main`, like every other write does."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the BrokenPipeError


def output() -> Console:
    """Standard output: tables fit the terminal, and are never cut for another program."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return _PipedConsole(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def say(message: str) -> None:
    """A line for a human."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def put(line: str) -> None:
    """A line of result."""
    sys.stdout.write(f"{line}\n")


def is_confirmed(question: str, yes: bool) -> bool:
    """Ask a human; where there is none to ask, or `yes` was said beforehand, the answer is yes."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

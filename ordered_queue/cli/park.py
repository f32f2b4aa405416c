"""`ordered-queue park`."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ordered_queue import api
from ordered_queue._drive import drive_sync
from ordered_queue._steps.deployments import find_deployment
from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import CommandFailed, Misused, advice_on, printable
from ordered_queue.cli.rows import FileRows, Format, Rows, StreamRows, format_of, split_params
from ordered_queue.cli.terminal import is_input_a_terminal, put, say
from ordered_queue.cli.values import ReadValue, reader_for
from ordered_queue.errors import (
    RESUBMIT,
    InvalidRun,
    OrderedQueueError,
    RequestFailed,
    SubmissionIncomplete,
    parked_before,
    parked_prefix,
)
from ordered_queue.runs import ParkedRun, RunRequest
from ordered_queue.sendable import bad_submission_key

STANDARD_INPUT = "-"


def park(
    deployment: str,
    /,
    *,
    param: Annotated[list[str] | None, Parameter(name=["--param", "-p"], negative="")] = None,
    # A lone "-" looks like an option to cyclopts.
    params_file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    file_format: Annotated[Format | None, Parameter(name="--format")] = None,
    submission_key: str | None = None,
    name: str | None = None,
) -> None:
    """Park flow runs at the end of a deployment's queue, in order; those that have a slot are promoted at once.

    Prints one flow run id a line, in order, unless standard output is a terminal. Does not wait for any run.

    Args:
        deployment: "flow/deployment", or an id.
        param: NAME=VALUE, once for each parameter of one run. The value is text if the flow's parameter is a str; else
            it is read as JSON if it is JSON, and as text if it is not. A text in double quotes is a JSON text for any
            parameter: one that has quotes of its own needs another pair around it.
        params_file: A file with the parameters of one run in each line: JSON lines, or CSV below a header of parameter
            names (cells are read as --param's values are; an empty cell leaves the parameter out). It is checked as a
            whole before a run is created. "-" is standard input, parked in chunks of 100 lines, the last at its end.
        file_format: What the file holds; by default CSV if its name ends in .csv, else JSON lines.
        submission_key: Repeating the command with the same key parks what is missing and nothing twice. Another list
            needs another key, also when the runs have ended. Made up and told if not given.
        name: Name of the run; only for one run.
    """
    source = _source(param or [], params_file, file_format, name)
    key = _checked_key(submission_key)
    with connected() as client:
        found, _ = drive_sync(client, find_deployment(deployment))
        runs = _runs(source, reader_for(found.parameter_openapi_schema), name)
        say(f"Submission key: {printable(key)}")
        with _telling(runs, key) as on_parked:
            parked = api.park_sync(found.id, runs, submission_key=key, client=client, on_parked=on_parked)
    known = sum(run.already_there for run in parked)
    if known:
        say(f"{known} of {len(parked)} runs were there already.")
    if not parked:
        say("Nothing to park.")
    elif sys.stdout.isatty():
        put(_summary(parked, deployment))


def _source(
    params: list[str], params_file: str | None, file_format: Format | None, name: str | None
) -> Rows | dict[str, str]:
    """Where the runs come from: rows to read, or the texts of one run's parameters.

    Raises:
        Misused: the options contradict each other, or there is no such file.
    """
    if params_file is None:
        if file_format is not None:
            raise Misused("--format says what --params-file holds; give that too.")
        return split_params(params)
    if params:
        raise Misused("--param makes one run, --params-file one of each line; give only one of them.")
    if name is not None:
        raise Misused("--name names one run; with --params-file Prefect makes the names up.")
    if params_file == STANDARD_INPUT:
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # so it is if it was closed (<&-)
            raise Misused("Standard input is closed; there is nothing to read.")
        if is_input_a_terminal():
            say("Reading one run a line from the terminal; Ctrl-D ends.")
        return StreamRows("standard input", sys.stdin.buffer, file_format or "jsonl")
    path = Path(params_file)
    if not path.exists():
        raise Misused(f"There is no file {params_file!r}.")
    if path.is_dir():
        raise Misused(f"{params_file!r} is a directory, not a file.")
    if not path.is_file():
        # A named pipe or <(command) can be read once only.
        return StreamRows(params_file, path.open("rb"), file_format or format_of(path))
    return FileRows(path, file_format or format_of(path))


def _runs(source: Rows | dict[str, str], read_value: ReadValue, name: str | None) -> Rows | list[RunRequest]:
    """What to park, the texts in it read as the flow wants them."""
    if isinstance(source, Rows):
        source.read_value = read_value
        return source
    return [RunRequest({param: read_value(param, text) for param, text in source.items()}, name)]


def _checked_key(key: str | None) -> str:
    if key is None:
        return str(uuid.uuid4())
    problem = bad_submission_key(key)
    if problem is not None:
        raise Misused(f"The submission key {problem}. Give one that is unique to this submission, or leave it out.")
    return key


@contextmanager
def _telling(runs: Rows | list[RunRequest], key: str) -> Generator[Callable[[Sequence[ParkedRun]], None], None, None]:
    """Show progress on a terminal, print ids for a program; tell of a failure how far it got and how to go on.

    Raises:
        CommandFailed: for what `park_sync` raises of a submission.
    """
    parked_count = 0
    unwritten: list[OSError] = []
    progress = _progress()
    task = progress.add_task("Parking", total=None)

    def on_parked(parked: Sequence[ParkedRun]) -> None:
        nonlocal parked_count
        parked_count += len(parked)
        progress.update(task, completed=parked_count, total=runs.total if isinstance(runs, Rows) else len(runs))
        if not sys.stdout.isatty() and not unwritten:
            try:
                put("\n".join(str(run.flow_run_id) for run in parked))
            except OSError as error:
                # Whoever read the ids went away, or the disk is full: no reason to leave the submission half parked.
                unwritten.append(error)

    try:
        with progress:
            yield on_parked
    except InvalidRun as error:
        raise CommandFailed(_bad_row(error, runs, key)) from error
    except SubmissionIncomplete as error:
        raise CommandFailed(_incomplete(error, key)) from error
    except (OrderedQueueError, OSError, KeyboardInterrupt) as error:
        if parked_count:
            say(f"At least the first {_runs_are(parked_count)} parked. {_how_to_go_on(key)}")
        elif isinstance(error, KeyboardInterrupt) and isinstance(runs, Rows) and runs.was_interrupted:
            # A chunk is created once it has been read, and this was the first.
            raise KeyboardInterrupt("Nothing was parked.") from error
        raise
    if unwritten:
        raise unwritten[0]


def _runs_are(count: int) -> str:
    return "run is" if count == 1 else f"{count} runs are"


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Left to itself rich takes over standard output too, and the ids for a program end up on the terminal.
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False)


def _bad_row(error: InvalidRun, runs: Rows | list[Any], key: str) -> str:
    where = runs.where(error.position) if isinstance(runs, Rows) else "--param"
    advice = _how_to_go_on(key) if error.parked_count and error.advice == RESUBMIT else ""
    return f"{where}: {error.reason} {parked_before(error.parked_count)} {advice}".rstrip()


def _incomplete(error: SubmissionIncomplete, key: str) -> str:
    cause = error.__cause__
    ending = advice_on(cause) if isinstance(cause, RequestFailed) else "."
    return f"{parked_prefix(error.parked_count, error.may_be_more)}: {error.cause}{ending} {_how_to_go_on(key)}"


def _how_to_go_on(key: str) -> str:
    return (
        f"Give the whole input again, corrected where needed, with `--submission-key {key}`: what is missing is "
        "parked, nothing twice."
    )


def _summary(parked: list[ParkedRun], deployment: str) -> str:
    """What was parked, for a human: nobody reads 10,000 ids."""
    first, last = parked[0], parked[-1]
    what = f"run {first.name} ({first.flow_run_id})" if first is last else f"{len(parked)} runs"
    times = " to ".join(dict.fromkeys(f"{run.parked_time:%Y-%m-%d %H:%M:%S.%f} UTC" for run in (first, last)))
    return printable(
        f"Parked {what} of {deployment}, position {first.position}"
        f"{'' if first is last else f' to {last.position}'} of the submission, parked time {times}."
    )

"""The demo from its first line to its verdict."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prefect.client.orchestration import SyncPrefectClient
from rich.console import Console

from demo import report
from demo.drain import drain
from demo.history import read_record
from demo.serving import log_tail, served
from demo.stopping import DemoFailed, Stopped, let_finish
from demo.submitters import RUNS_EACH, SUBMITTERS, park_from_all
from demo.verdict import judge
from ordered_queue import OrderedQueueError, embedded

EXPECTED = len(SUBMITTERS) * RUNS_EACH

let_finish(embedded.stop)


def run(folder: Path, root: Path, console: Console) -> int:
    """Start, park, watch, judge, stop.

    Args:
        folder: the demo's own; it becomes `PREFECT_HOME`.
        root: the repository, where `flows/example.py` is.
        console: where to print.

    Returns:
        the exit code: 0 if order and limit held, 1 if not.

    Raises:
        DemoFailed: something did not start, or did not answer any more.
        Stopped: by a signal. In each case all that was started has ended.
    """
    console.print("Starting a Prefect server of our own (SQLite)…")
    with (
        _explained(folder),
        # A fast poll, so that what is seen is the queue's own pace.
        embedded.prefect_server(folder, settings={"PREFECT_RUNNER_POLL_FREQUENCY": "1"}) as server,
        _said_when_stopped(console),
        SyncPrefectClient(server.api_url) as client,
    ):
        console.print("Serving flows/example.py…")
        with served(root / "flows" / "example.py", root, server, client) as serving:
            names = " and ".join(SUBMITTERS)
            console.print(f"Parking {EXPECTED} runs of {serving.deployment_name}: submitters {names} at once…")
            park_from_all(server.api_url, serving.deployment_name)
            ended = drain(client, serving, EXPECTED, console)
            records = [read_record(client, each, position) for position, each in enumerate(ended)]
            outcome = judge(records, EXPECTED, serving.limit)
            report.show(records, outcome, serving.limit, console)
    return outcome.exit_code


@contextmanager
def _explained(folder: Path) -> Generator[None, None, None]:
    """Turn what can go wrong outside of our hands into a message for people."""
    try:
        yield
    except (RuntimeError, OrderedQueueError) as error:
        raise DemoFailed(str(error)) from error
    except httpx.HTTPError as error:
        raise DemoFailed(
            f"The Prefect server failed: {error!r}. Its log:\n{log_tail(folder / 'server.log')}"
        ) from error


@contextmanager
def _said_when_stopped(console: Console) -> Generator[None, None, None]:
    try:
        yield
    except Stopped as stopped:
        console.print(f"{stopped}: stopping what was started…")
        raise

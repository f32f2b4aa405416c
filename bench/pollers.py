"""What starts flow runs: Prefect's ``serve``, a worker, and beside them perhaps our watcher. Each in a process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.workers.base import BaseWorker

from bench.environment import ROOT
from bench.flows import FLOWS, enqueue
from ordered_queue.embedded import EmbeddedServer, stop

START_SECONDS = 90.0

SERVE = "serve"
"""Prefect's own ``serve``; any other poller is the type of a worker."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = START_SECONDS, pause: float = 0.1) -> None:
    """Wait for a condition, with a bound.

    Raises:
        RuntimeError: it did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come true within {seconds:.0f} s.")
        time.sleep(pause)


@contextmanager
def running(
    command: Sequence[str], env: Mapping[str, str], log: Path, is_up: Callable[[], object] | None = None
) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process, and whatever it starts, until the block ends.

    Args:
        command: for our own Python.
        env: its environment.
        log: what it prints.
        is_up: what to wait for before the block begins.

    Raises:
        RuntimeError: it ended, or was not up in time; the message ends with its log.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=dict(env),
            cwd=ROOT,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        if is_up is not None:

            def is_up_or_over() -> object:
                return is_up() or process.poll() is not None

            wait_until(is_up_or_over, f"The start of {' '.join(command)}")
            if process.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended:\n{log.read_text(errors='replace')[-2000:]}")
        yield process
    finally:
        stop(process)


def missing(poller: str) -> str | None:
    """Why this poller cannot be had here; None if it can."""
    if poller == SERVE or poller in BaseWorker.get_all_available_worker_types():
        return None
    return f"no worker type {poller!r} is installed (after it was added: `pip install --editable .` once more)"


@contextmanager
def polled(
    poller: str, flow_name: str, name: str, limit: int, server: EmbeddedServer, env: Mapping[str, str], log: Path
) -> Generator[str, None, None]:
    """A deployment that is polled for; the name of the deployment.

    Args:
        poller: "serve" or the type of a worker.
        flow_name: which flow of `bench.flows`.
        name: for the deployment, and for the pool of a worker; not used before.
        limit: the concurrency limit.
        server: whose API.
        env: more environment for the process.
        log: what it prints.
    """
    environment = {**server.env, **env}
    deployment = f"{FLOWS[flow_name].name}/{name}"
    with ExitStack() as stack:
        if poller == SERVE:
            client = stack.enter_context(SyncPrefectClient(server.api_url))
            command = [str(ROOT / "bench" / "flows.py"), flow_name, name, str(limit)]
            stack.enter_context(running(command, environment, log, lambda: _is_there(client, deployment)))
        else:
            command = ["-m", "prefect", "worker", "start", "--type", poller, "--pool", name]
            stack.enter_context(running(command, environment, log, lambda: b"started!" in log.read_bytes()))
            # Only now: the worker makes the pool if there is none.
            source = Flow.from_source(source=str(ROOT), entrypoint=f"bench/flows.py:{flow_name}")
            made = source.to_deployment(name=name, work_pool_name=name, concurrency_limit=enqueue(limit))
            made.apply()
        yield deployment


@contextmanager
def watched(server: EmbeddedServer, log: Path) -> Generator[None, None, None]:
    """A watcher, from when it follows the event stream on."""
    command = ["-m", "ordered_queue.cli", "watch"]
    with running(command, server.env, log, lambda: b"following the event stream" in log.read_bytes()):
        yield


def _is_there(client: SyncPrefectClient, deployment: str) -> bool:
    try:
        client.read_deployment_by_name(deployment)
    except ObjectNotFound:
        return False
    return True

"""Serving the example flow in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from demo.stopping import DemoFailed
from ordered_queue import embedded, limit_of

DEPLOYMENT_NAME = "example/ordered"
REGISTER_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class Serving:
    """A deployment that is being served.

    Attributes:
        deployment_id: the deployment.
        deployment_name: flow name / deployment name.
        limit: its concurrency limit.
        process: the serving process.
        log: what it prints.
    """

    deployment_id: UUID
    deployment_name: str
    limit: int
    process: subprocess.Popen[bytes]
    log: Path

    def ensure_alive(self) -> None:
        """Fail if the serving process has ended.

        Raises:
            DemoFailed: with the end of its log.
        """
        _ensure_alive(self.process, self.log)


@contextmanager
def served(
    script: Path, root: Path, server: embedded.EmbeddedServer, client: SyncPrefectClient
) -> Generator[Serving, None, None]:
    """Run a script that serves, until the block ends; then stop it with all the runs that it started.

    Raises:
        DemoFailed: it ended, or did not register its deployment in time.
    """
    log = server.home / "serve.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  # our own script, no shell
            [sys.executable, str(script)],
            env=dict(server.env),
            cwd=root,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        deployment = _wait_until_registered(client, process, log)
        limit = limit_of(deployment)
        if limit is None:
            raise DemoFailed(f"{DEPLOYMENT_NAME} has no concurrency limit. Serve it with `concurrency_limit=2`.")
        yield Serving(deployment.id, DEPLOYMENT_NAME, limit, process, log)
    finally:
        embedded.stop(process)


def log_tail(log: Path) -> str:
    """The end of a log, for people to read."""
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(empty)"


def _wait_until_registered(
    client: SyncPrefectClient, process: subprocess.Popen[bytes], log: Path
) -> DeploymentResponse:
    deadline = time.monotonic() + REGISTER_SECONDS
    while time.monotonic() < deadline:
        _ensure_alive(process, log)
        try:
            return client.read_deployment_by_name(DEPLOYMENT_NAME)
        except ObjectNotFound:
            time.sleep(LOOK_AGAIN_SECONDS)
    raise DemoFailed(f"{DEPLOYMENT_NAME} was not served within {REGISTER_SECONDS:.0f} s. Its log:\n{log_tail(log)}")


def _ensure_alive(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise DemoFailed(f"Serving ended with exit code {process.returncode}. Its log:\n{log_tail(log)}")

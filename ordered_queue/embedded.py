"""A Prefect server of one's own: SQLite in a folder of its own, a free loopback port, analytics off.

For demos, tests and benchmarks. It ends with the ``with`` block, also when that is left by an exception.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

START_SECONDS = 90.0
STOP_SECONDS = 15.0


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server.

    Attributes:
        api_url: where its API is.
        home: its ``PREFECT_HOME``; its log is ``server.log`` there.
        env: the environment for processes that are to use it. Nothing of the caller's own Prefect settings is in it.
        pid: its process id.
    """

    api_url: str
    home: Path
    env: Mapping[str, str] = field(repr=False)
    pid: int


@contextmanager
def prefect_server(
    home: Path, *, python: str = sys.executable, settings: Mapping[str, str] | None = None, port: int | None = None
) -> Generator[EmbeddedServer, None, None]:
    """Start a server and wait until it answers; stop it at the end.

    Args:
        home: an existing folder that the server may fill; it becomes ``PREFECT_HOME``.
        python: the interpreter whose Prefect is to be served.
        settings: more environment variables for the server and for its users.
        port: where to listen; a free one if None. With the home and the port of one that was stopped, it is that server
            again.

    Raises:
        RuntimeError: it did not start; the message ends with its log.
    """
    home = home.resolve()
    port = port or free_port()
    api_url = f"http://127.0.0.1:{port}/api"
    env = clean_environment(home, settings or {})
    command = [python, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  # our own command, no shell
            command, env=env, cwd=home, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        _wait_until_healthy(api_url, process, home / "server.log")
        yield EmbeddedServer(api_url, home, {**env, "PREFECT_API_URL": api_url}, process.pid)
    finally:
        stop(process)


def clean_environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment without any Prefect settings of the caller's, and with ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        **kept,
        "PREFECT_HOME": str(home),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect.db",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
        **settings,
    }


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen[bytes], seconds: float = STOP_SECONDS) -> None:
    """End a process that was started in a session of its own, and whatever it started: politely, then for good."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_until_healthy(api_url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"The Prefect server ended with exit code {process.returncode}:\n{_tail(log)}")
        try:
            if httpx.get(f"{api_url}/health", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"The Prefect server did not answer within {START_SECONDS:.0f} s:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]

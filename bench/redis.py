"""A Redis server of one's own: a free loopback port, a folder of its own, nothing kept."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ordered_queue.embedded import free_port, stop

START_SECONDS = 20.0


def why_not() -> str | None:
    """Why Prefect cannot have Redis here; None if it can."""
    if shutil.which("redis-server") is None:
        return "there is no redis-server (Debian's package of that name has it)"
    if importlib.util.find_spec("prefect_redis") is None:
        return "the package prefect-redis is not installed (pip install -e '.[soak]')"
    return None


@contextmanager
def redis(folder: Path) -> Generator[int, None, None]:
    """Start a server; its port.

    Raises:
        RuntimeError: it did not get ready.
    """
    port = free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_ready(port)
        yield port
    finally:
        stop(process)


def settings(port: int) -> dict[str, str]:
    """What several API servers need to act as one: messages, leases and background services go through Redis."""
    return {
        "PREFECT_MESSAGING_BROKER": "prefect_redis.messaging",
        "PREFECT_MESSAGING_CACHE": "prefect_redis.messaging",
        "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "prefect_redis.ordering",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
        "PREFECT_SERVER_DOCKET_URL": f"redis://127.0.0.1:{port}/1",
        "PREFECT_REDIS_MESSAGING_HOST": "127.0.0.1",
        "PREFECT_REDIS_MESSAGING_PORT": str(port),
    }


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("Redis did not get ready")

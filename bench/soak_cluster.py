"""One or two Prefect API servers on one PostgreSQL, with Redis between them; each can be killed and started again."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import redis as redis_server
from ordered_queue.embedded import EmbeddedServer, free_port, prefect_server
from tests.postgresql import postgresql


@dataclass
class ApiServer:
    """An API server that keeps its port and its home over restarts.

    Attributes:
        name: for people.
        home: its ``PREFECT_HOME``.
        port: where it listens.
        settings: its environment, beside what every server of ours has.
        running: the server, None while it is down.
    """

    name: str
    home: Path
    port: int
    settings: Mapping[str, str]
    running: EmbeddedServer | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.running = self._held.enter_context(prefect_server(self.home, settings=self.settings, port=self.port))

    def kill(self) -> None:
        """End it with all that it started, at once."""
        if self.running is not None:
            os.killpg(self.running.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End it."""
        self.running = None
        self._held.close()

    def restart_in_background(self) -> threading.Thread:
        """Kill it, and start it again in a thread: starting takes a while."""
        self.kill()
        thread = threading.Thread(target=self.start, daemon=True)
        thread.start()
        return thread


@dataclass
class Cluster:
    """The servers.

    Attributes:
        servers: the API servers.
        database_url: of their PostgreSQL, as Prefect takes it.
        without_redis: why there is only one server; None if there are two.
    """

    servers: list[ApiServer]
    database_url: str
    without_redis: str | None

    def env(self) -> dict[str, str]:
        """The environment of a process that uses one of the servers that are up."""
        chosen = random.choice([server.running for server in self.servers if server.running is not None])
        return {name: value for name, value in chosen.env.items() if name != "PREFECT_API_DATABASE_CONNECTION_URL"}


@contextmanager
def cluster(folder: Path) -> Generator[Cluster, None, None]:
    """Start PostgreSQL, Redis and two API servers; without Redis, one."""
    with ExitStack() as stack:
        url = stack.enter_context(postgresql({}))
        settings = {"PREFECT_API_DATABASE_CONNECTION_URL": url, "PREFECT_LOGGING_TO_API_ENABLED": "false"}
        without_redis = redis_server.why_not()
        if without_redis is None:
            settings |= redis_server.settings(stack.enter_context(redis_server.redis(folder)))
        servers: list[ApiServer] = []
        for name in ["api-1"] if without_redis else ["api-1", "api-2"]:
            home = folder / name
            home.mkdir()
            servers.append(ApiServer(name, home, free_port(), settings))
            # One after the other: the first makes the tables.
            servers[-1].start()
            stack.callback(servers[-1].stop)
        yield Cluster(servers, url, without_redis)

"""A Prefect server to measure on, with either database, and what its access log says."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from bench.traffic import Recorder
from ordered_queue.embedded import EmbeddedServer, prefect_server
from tests.postgresql import postgresql

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
DATABASES = (SQLITE, POSTGRESQL)

# The plans of slow statements can be had from the server's own log, once that is asked for.
POSTGRESQL_SETTINGS = {"session_preload_libraries": "auto_explain"}


@dataclass(frozen=True)
class Database:
    """A database that outlives the Prefect servers on it.

    Attributes:
        kind: sqlite or postgresql.
        home: a folder for the Prefect server; the SQLite file is in it.
        url: as Prefect takes it.
    """

    kind: str
    home: Path
    url: str

    @property
    def postgresql_folder(self) -> Path:
        """Where PostgreSQL's socket and log are."""
        return Path(self.url.split("host=")[1])


@contextmanager
def database(kind: str, folder: Path, name: str) -> Generator[Database, None, None]:
    """An empty database."""
    home = folder / name
    home.mkdir()
    if kind == SQLITE:
        yield Database(kind, home, f"sqlite+aiosqlite:///{home}/prefect.db")
        return
    with postgresql(POSTGRESQL_SETTINGS) as url:
        yield Database(kind, home, url)


@contextmanager
def served(on: Database, *, access_log: bool = False) -> Generator[EmbeddedServer, None, None]:
    """A Prefect server on a database; this process talks to it, too.

    Args:
        on: the database.
        access_log: have each request in the server's log.
    """
    settings = {"PREFECT_API_DATABASE_CONNECTION_URL": on.url}
    if access_log:
        settings["PREFECT_SERVER_LOGGING_LEVEL"] = "INFO"
    with prefect_server(on.home, settings=settings) as server:
        with temporary_settings(updates={PREFECT_API_URL: server.api_url}):
            yield server


@contextmanager
def opened(recorder: Recorder | None = None) -> Generator[SyncPrefectClient, None, None]:
    """A client of the server, recorded if told so."""
    settings = {"timeout": 120, **({"event_hooks": recorder.hooks} if recorder else {})}
    with get_client(httpx_settings=settings, sync_client=True) as client:
        yield client


@dataclass
class LogWindow:
    """The part of a server's log that was written since the window was opened or last read."""

    path: Path
    position: int = 0

    @classmethod
    def open_at_end(cls, path: Path) -> LogWindow:
        return cls(path, path.stat().st_size)

    def read(self) -> str:
        """What came since."""
        with self.path.open("rb") as file:
            file.seek(self.position)
            content = file.read()
        self.position += len(content)
        return content.decode(errors="replace")

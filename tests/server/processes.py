"""Processes of our own Python, each until a block ends."""

import subprocess
import sys
from contextlib import contextmanager

from ordered_queue.embedded import stop
from tests.conftest import ROOT
from tests.server.deployed import wait_until


@contextmanager
def running(server, log_path, *arguments, ready=None, cwd=ROOT, **settings):
    """A process that uses the server; it and what it starts are gone when the block ends.

    What it says goes to the log. `ready` is what it says once the block may begin.
    """
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env={**server.env, **settings},
            cwd=cwd,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if ready is not None:
                wait_until(lambda: ready in log_path.read_bytes(), 60, f"{ready!r} of {' '.join(arguments)}")
            yield process
        finally:
            stop(process)

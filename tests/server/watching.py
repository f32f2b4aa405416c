"""A watcher in a process of its own."""

import subprocess
import sys
from contextlib import contextmanager

from ordered_queue.embedded import stop
from tests.conftest import ROOT
from tests.server.deployed import wait_until

NEVER = "86400"
"""So many seconds between sweeps that events alone must do."""


@contextmanager
def watching(server, log_path, *options):
    """A watcher that follows the event stream."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ordered_queue.cli", "watch", *options],
            env=dict(server.env),
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_until(lambda: b"following the event stream" in log_path.read_bytes(), 60, "the watcher's first event")
            yield process
        finally:
            stop(process)

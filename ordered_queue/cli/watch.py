"""`ordered-queue watch`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import anyio

from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import Misused
from ordered_queue.watcher import SWEEP_SECONDS
from ordered_queue.watcher import watch as watch_queues


def watch(*, sweep_seconds: float = SWEEP_SECONDS, health_file: Path | None = None) -> None:
    """Keep every queue filled: follow Prefect's events, sweep now and then. Runs until SIGTERM or Ctrl-C.

    Args:
        sweep_seconds: How often to look at every queue, whatever the events say.
        health_file: Written every 5 s while the watcher is well. A probe looks at its age.
    """
    if sweep_seconds <= 0:
        raise Misused(f"--sweep-seconds must be more than 0, not {sweep_seconds}.")
    if health_file is not None and not health_file.parent.is_dir():
        raise Misused(f"There is no directory {str(health_file.parent)!r} for the health file.")
    with connected():
        # Only to say at once what is wrong with the address; the watcher has a client of its own.
        logging.getLogger("prefect.ordered_queue").setLevel(logging.INFO)
    anyio.run(partial(watch_queues, sweep_seconds=sweep_seconds, health_file=health_file))

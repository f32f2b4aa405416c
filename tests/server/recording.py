"""Flows that write down each time that they are executed, with our hooks and without, and who serves them.

python -m tests.server.recording plain NAME...     served by Prefect, as if this package were not there
python -m tests.server.recording queued NAME...    served by ordered_queue
"""

import os
import sys
import time
from pathlib import Path

import prefect
from prefect import flow
from prefect.runtime import flow_run

import ordered_queue


def write_down(record):
    """One line, in one write to a file that is open for appending: no other process's line is in between."""
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{flow_run.id}\n".encode())
    os.close(file)


def executed(record):
    """The ids of the runs that were executed, in order; one that was executed twice is there twice."""
    return Path(record).read_text().split() if Path(record).exists() else []


@flow
def plain(record: str, seconds: float = 0.2):
    write_down(record)
    time.sleep(seconds)


@ordered_queue.queued
@flow
def queued(record: str, seconds: float = 0.2):
    write_down(record)
    time.sleep(seconds)


SERVED_BY = {"plain": (plain, prefect.serve), "queued": (queued, ordered_queue.serve)}


if __name__ == "__main__":
    flow_to_serve, serve = SERVED_BY[sys.argv[1]]
    serve(*[flow_to_serve.to_deployment(name, concurrency_limit=1) for name in sys.argv[2:]])

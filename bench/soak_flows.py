"""The real flow of the soak: writes down that it is executed, and by which process. It imports nothing of the bench,
since a worker loads it from its file."""

import os
import sys
import time

from prefect import flow
from prefect.runtime import flow_run

import ordered_queue


@ordered_queue.queued
@flow
def short(journal: str, seconds: float = 1.0) -> None:
    """One line for each execution: the run and the process."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"executed {flow_run.id} {os.getpid()}\n".encode())
    os.close(file)
    time.sleep(seconds)


if __name__ == "__main__":
    ordered_queue.serve(short.to_deployment("served", concurrency_limit=int(sys.argv[1])), query_seconds=1)

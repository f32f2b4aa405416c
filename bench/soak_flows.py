"""The real flows of the soak and of the crash bounds: each writes down that it is executed, and by which process.

    python -m bench.soak_flows NAME LIMIT [plain]

serves one of them: with our hooks under ``ordered_queue.serve``, or plain under Prefect's own ``serve``. Nothing of the
bench is imported, since a worker loads this file by its path.
"""

import os
import sys
import time

import prefect
from prefect import flow
from prefect.runtime import flow_run

import ordered_queue


def write_down(journal: str) -> None:
    """One line for each execution: the run and the process."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"executed {flow_run.id} {os.getpid()}\n".encode())
    os.close(file)


@ordered_queue.queued
@flow
def short(journal: str, seconds: float = 1.0) -> None:
    """A flow that hands its slot over."""
    write_down(journal)
    time.sleep(seconds)


@flow
def plain(journal: str, seconds: float = 1.0) -> None:
    """A flow as Prefect alone knows it."""
    write_down(journal)
    time.sleep(seconds)


if __name__ == "__main__":
    name, limit = sys.argv[1], int(sys.argv[2])
    if sys.argv[3:] == ["plain"]:
        prefect.serve(plain.to_deployment(name, concurrency_limit=limit))
    else:
        ordered_queue.serve(short.to_deployment(name, concurrency_limit=limit))

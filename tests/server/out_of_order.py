"""What the demo serves where order and limit are to break: every run is taken by hand, at once, the last one first.

It stands in the place of `flows/example.py`; see `test_demo.py`.
"""

import signal
import time

from prefect import flow, get_client
from prefect.states import Completed, Running

RUNS = 12


@flow
def example(item: str, seconds: float = 2.0):
    """Never executed."""


if __name__ == "__main__":
    example.to_deployment("ordered", concurrency_limit=2).apply()
    with get_client(sync_client=True) as client:
        while len(runs := client.read_flow_runs()) < RUNS:
            time.sleep(0.2)
        runs.sort(key=lambda run: run.expected_start_time, reverse=True)
        for state in (Running, Completed):
            for run in runs:
                client.set_flow_run_state(run.id, state(), force=True)
    signal.pause()  # as a runner, until it is stopped

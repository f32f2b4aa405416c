"""A worker is stopped in the middle of a run, as a deploy or a reboot does it.

Prefect's process worker takes its flows' processes with it, without a word to the server: their runs stay Running until
somebody ends them, or until their lease lapses and the queue counts them no more (tests/unit/test_counting.py).
"""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

from prefect import flow

from ordered_queue import park_sync, sweep_sync
from ordered_queue.embedded import stop
from tests.conftest import ROOT
from tests.server.deployed import Deployed, wait_until
from tests.server.recording import executed

POOL = "stopped"


@contextmanager
def working(server, log_path):
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--type", "process", "--pool", POOL],
            env={**server.env, "PREFECT_WORKER_QUERY_SECONDS": "1"},
            cwd=log_path.parent,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            # It makes the pool if there is none.
            wait_until(lambda: b"started!" in log_path.read_bytes(), 60, "the worker's start")
            yield process
        finally:
            stop(process)


def deploy(client):
    source = flow.from_source(source=str(ROOT), entrypoint="tests/server/recording.py:queued")
    deployment_id = source.deploy(
        name="worker-stopped", work_pool_name=POOL, concurrency_limit=1, print_next_steps=False, ignore_warnings=True
    )
    return Deployed(client, deployment_id, f"{source.name}/worker-stopped")


def test_runs_wait_in_order_and_none_starts_twice_when_a_worker_is_stopped_in_the_middle(server, client, tmp_path):
    record = tmp_path / "record"
    with working(server, tmp_path / "first") as worker:
        queue = deploy(client)
        rows = [{"record": str(record), "seconds": seconds} for seconds in (600, 0, 0)]
        first, second, third = park_sync(queue.id, rows, client=client)
        wait_until(lambda: executed(record), 90, "the first run's start")
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait(60) == 0

    with working(server, tmp_path / "second"):
        assert sweep_sync(client, queue.id)[0].promoted == 0
        assert queue.states([first, second, third]) == ["Running", "Parked", "Parked"]

        # What an operator, the doctor or Prefect's own zombie automation does.
        assert queue.set_state(first, "CRASHED") == "ACCEPT"
        assert sweep_sync(client, queue.id)[0].promoted == 1
        wait_until(lambda: queue.states([second, third]) == ["Completed"] * 2, 120, "the end of the other runs")

    assert executed(record) == [str(run.flow_run_id) for run in (first, second, third)]

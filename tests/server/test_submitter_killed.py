"""A submitter is killed in the middle of a thousand runs, at any moment; the same submission again completes it."""

import random
import subprocess
import sys
import time

from ordered_queue import park_sync
from ordered_queue.embedded import stop
from tests.conftest import ROOT, on_both_databases
from tests.server.test_park import numbers, waiting_numbers

pytestmark = on_both_databases

COUNT = 1000
PARKED_BEFORE = 300
LONGEST_CHUNK_SECONDS = 1.0


def kill_in_the_middle(server, queue, key):
    """Start a submitter, and kill it -9 some moments after it has said that `PARKED_BEFORE` runs are parked."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.submitter", str(queue.id), key, str(COUNT)],
        env=dict(server.env),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert any(int(line) >= PARKED_BEFORE for line in process.stdout)
        time.sleep(random.uniform(0, LONGEST_CHUNK_SECONDS))
        assert process.poll() is None, "it had ended before it was killed"
        process.kill()
    finally:
        stop(process)


def test_a_submission_whose_submitter_was_killed_is_completed_by_its_key(deploy, client, server):
    queue = deploy(limit=1)
    kill_in_the_middle(server, queue, "nightly")

    # At once: the server may still be at work on the last request of the dead.
    runs = park_sync(queue.id, numbers(COUNT), submission_key="nightly", client=client)

    assert sum(run.already_there for run in runs) >= PARKED_BEFORE
    assert len({run.flow_run_id for run in runs}) == COUNT
    assert [run.parked_time for run in runs] == sorted({run.parked_time for run in runs})
    assert waiting_numbers(client, queue) == list(range(COUNT))

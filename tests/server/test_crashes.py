"""A promoter dies after any of its requests; a sweep later all promises hold. (Submitters: test_park_crashes.py.)"""

from datetime import timedelta
from uuid import uuid4

import pytest

from ordered_queue import sweep_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.ending import fill_after_end
from ordered_queue._steps.fill import Filled, fill
from ordered_queue._steps.queue import cancel_submission, unpark
from ordered_queue._steps.sweep import sweep
from tests.conftest import on_both_databases
from tests.interruption import Crash, crashing_after

pytestmark = on_both_databases

TIMEOUT = timedelta(minutes=30)


def crash(client, steps, requests):
    """Drive the steps until the crash, or to their end if they make fewer requests."""
    try:
        drive_sync(client, crashing_after(steps, requests))
    except Crash:
        return True
    return False


@pytest.mark.parametrize("requests", range(7))
def test_a_fill_that_died_is_completed_by_a_sweep(deploy, client, requests):
    queue = deploy(limit=2)
    runs = queue.park(5)
    queue.cancel(runs[0])
    queue.cancel(runs[1])

    died = crash(client, fill(queue.id, None, TIMEOUT, Filled()), requests)
    sweep_sync(client, queue.id)

    assert died == (requests < 6)
    assert queue.states(runs) == ["Cancelled", "Cancelled", "Late", "Late", "Parked"]
    assert [queue.history(run).count("Late") for run in runs] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("requests", range(7))
def test_a_sweep_that_died_is_completed_by_the_next(deploy, client, requests):
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.cancel(runs[0])

    crash(client, sweep(None, TIMEOUT, []), requests)
    sweep_sync(client)

    assert queue.states(runs) == ["Cancelled", "Late", "Parked"]


@pytest.mark.parametrize("requests", range(6))
def test_a_hook_that_died_as_it_waited_for_the_end_is_made_up_for_by_a_sweep(deploy, client, requests):
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.cancel(runs[0])

    steps = fill_after_end(runs[0].flow_run_id, queue.id, TIMEOUT, Filled(), lambda: False)
    crash(client, steps, requests)
    sweep_sync(client, queue.id)

    assert queue.states(runs) == ["Cancelled", "Late", "Parked"]


@pytest.mark.parametrize("requests", range(9))
def test_a_cancellation_that_died_is_completed_by_repeating_it(deploy, client, requests):
    queue = deploy(limit=1)
    key = str(uuid4())
    others = queue.park(1)
    runs = queue.park(3, submission_key=key)

    crash(client, cancel_submission(key, queue.id, []), requests)
    drive_sync(client, cancel_submission(key, queue.id, []))

    assert queue.states([*others, *runs]) == ["Late", "Cancelled", "Cancelled", "Cancelled"]


@pytest.mark.parametrize("requests", range(10))
def test_an_unpark_that_died_is_completed_by_repeating_it(deploy, client, requests):
    queue = deploy(limit=1)
    runs = queue.park(3)

    crash(client, unpark(queue.id, []), requests)
    drive_sync(client, unpark(queue.id, []))

    assert queue.states(runs) == ["Late", "Late", "Late"]
    assert all("ordered-queue" not in queue.read(run.flow_run_id).tags for run in runs)

"""End to end under a process worker, in real processes: the flows deployed as users deploy them to a work pool.

A worker runs the crash and cancellation hooks in a process of their own, once the run's has ended.
"""

import pytest

from ordered_queue import fill_free_slots_sync, park_sync
from ordered_queue.embedded import stop
from ordered_queue.testing import assert_in_order
from tests.server.deployed import wait_until
from tests.server.slots import lapse
from tests.server.working import deploy_to, run_all, see_it_hand_over, state_names, working

POOL = "processes"


@pytest.fixture(scope="module")
def worker(server, tmp_path_factory):
    """The process of Prefect's own worker, which polls its pool every second."""
    log_path = tmp_path_factory.mktemp("worker") / "log"
    with working(server, log_path, POOL, worker_type="process", query_seconds="1") as process:
        yield process


@pytest.fixture
def work(worker, client):
    """Deploy a flow of `served.py` to the worker's pool, with limit 1."""
    return lambda flow_name, name: deploy_to(client, POOL, flow_name, name)


def test_a_worker_starts_runs_in_order(work):
    """Of an async flow whose hooks are put in by hand; the other tests take sync flows, and the decorator."""
    queue = work("by_hand_async", "worker-order")

    runs = run_all(queue, [{}] * 2)

    assert state_names(runs) == ["Completed"] * 2
    assert_in_order(runs, limit=1)
    # Each was promoted by the end of the one before it; nobody else was there to do so.
    for run in runs:
        history = queue.history(run.id)
        assert history[:2] == ["Parked", "Late"], history
        assert "AwaitingConcurrencySlot" not in history


def test_a_flow_that_hands_its_slot_over_itself_promotes_the_next_under_a_worker(work):
    see_it_hand_over(work("hands_over_itself", "worker-itself"), 120)


def test_a_worker_starts_the_next_run_when_a_flow_process_is_killed(work):
    queue = work("sync_flow", "worker-kill")

    runs = run_all(queue, [{"how": "kill"}, {}])

    assert state_names(runs) == ["Crashed", "Completed"]
    assert_in_order(runs, limit=1)
    assert "AwaitingConcurrencySlot" not in queue.history(runs[1].id)


def test_a_worker_starts_the_next_run_when_a_running_one_is_cancelled(work):
    queue = work("by_hand", "worker-cancel")
    first, second = park_sync(queue.id, [{"seconds": 300}, {}], client=queue.client)
    wait_until(lambda: queue.state_of(first) == "Running", 120, "the first run to be Running")

    queue.cancel(first)

    wait_until(lambda: queue.state_of(second) == "Completed", 180, "the second run's end")
    assert queue.state_of(first) == "Cancelled"
    # It was promoted after the first had given its slot back, so it found one at its first try.
    assert "AwaitingConcurrencySlot" not in queue.history(second)


def test_a_worker_that_is_stopped_leaves_its_run_running_and_the_queue_goes_on_once_the_lease_has_lapsed(
    work, worker, client, later
):
    """Case 20: it ends the run's process and tells nobody. The last test here, since it ends the worker."""
    queue = work("sync_flow", "worker-stop")
    first, second = park_sync(queue.id, [{"seconds": 300}, {}], client=client)
    wait_until(lambda: queue.state_of(first) == "Running", 120, "the first run to be Running")

    stop(worker, seconds=60)

    assert queue.states([first, second]) == ["Running", "Parked"]
    assert fill_free_slots_sync(client, queue.id) == 0
    lapse(queue, first)
    later(6)
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(second) == "Late"

"""The queue in seven steps, one behaviour each. Read it from the top; the edge cases are in tests/server.

The test plays the runner: `start` takes a run as a runner does, `finish` completes it.
"""

import anyio
import pytest
from prefect.client.orchestration import get_client

from ordered_queue import RunRequest, fill_free_slots, fill_free_slots_sync, park_sync, sweep_sync
from ordered_queue.testing import in_submission_order

TABLES = [{"table": "a"}, {"table": "b"}, {"table": "c"}]


@pytest.fixture
def queue(deploy):
    """A deployment with one slot."""
    return deploy(limit=1)


def test_park_promotes_the_first_run_and_lets_the_others_wait_when_one_slot_is_free(queue, client):
    runs = park_sync(queue.name, TABLES, client=client)

    assert queue.states(runs) == ["Late", "Parked", "Parked"]


def test_park_names_and_labels_a_run_when_it_is_asked_for_by_a_request(queue, client):
    (run,) = park_sync(queue.name, [RunRequest({"table": "a"}, name="load-a", labels={"team": "x"})], client=client)

    assert run.name == "load-a"
    assert queue.read(run.flow_run_id).labels["team"] == "x"


def test_park_adds_nothing_when_it_is_repeated_with_its_key(queue, client):
    first = park_sync(queue.name, TABLES, submission_key="monday", client=client)

    again = park_sync(queue.name, TABLES, submission_key="monday", client=client)

    assert [run.flow_run_id for run in again] == [run.flow_run_id for run in first]


def test_a_fill_promotes_nobody_while_the_slot_is_taken(queue, client):
    runs = park_sync(queue.name, TABLES, client=client)
    queue.start(runs[0])

    assert fill_free_slots_sync(client, queue.id) == 0


def test_a_fill_promotes_the_next_run_when_one_has_ended(queue, client):
    runs = park_sync(queue.name, TABLES, client=client)
    queue.start(runs[0])
    queue.finish(runs[0])

    async def fill():
        async with get_client() as async_client:
            return await fill_free_slots(async_client, queue.id)

    assert anyio.run(fill) == 1
    assert queue.states(runs) == ["Completed", "Late", "Parked"]


def test_a_run_hands_its_slot_over_when_it_says_that_it_is_about_to_end(queue, client):
    """`hand_over_slot()` does this inside of a flow."""
    runs = park_sync(queue.name, TABLES, client=client)
    queue.start(runs[0])

    assert fill_free_slots_sync(client, queue.id, exclude_flow_run_id=runs[0].flow_run_id) == 1
    assert queue.states(runs) == ["Running", "Late", "Parked"]


def test_a_sweep_repairs_a_queue_when_nobody_handed_over(queue, client):
    runs = park_sync(queue.name, TABLES, client=client)
    queue.cancel(runs[0])  # it has no process, so no hook runs

    swept = sweep_sync(client)

    assert [found.promoted for found in swept if found.deployment_id == queue.id] == [1]
    assert queue.states(runs) == ["Cancelled", "Late", "Parked"]


def test_the_queue_is_read_in_order_of_submission_when_two_submitted(queue, client):
    earlier = park_sync(queue.name, TABLES, client=client)
    later = park_sync(queue.name, TABLES, client=client)

    runs = [queue.read(run.flow_run_id) for run in [*later, *earlier]]

    assert [run.id for run in in_submission_order(runs)] == [run.flow_run_id for run in [*earlier, *later]]

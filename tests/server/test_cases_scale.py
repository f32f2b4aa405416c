"""Cases from the field, "API and scale": docs/cases.md, 32 to 40. The number of the case is in each docstring."""

import json
from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from prefect.exceptions import FlowRunWaitTimeout
from prefect.flow_runs import wait_for_flow_run

from ordered_queue import PARK_DELAY, PARKED_TAG, fill_free_slots_sync, park_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.park import Parking, Submission
from ordered_queue._steps.park import park as park_steps
from ordered_queue.cli import main
from tests.interruption import Crash, crashing_after


def bounce(queue, run):
    """Let an outsider take the run's slot first."""
    outsider = queue.create_outsider()
    queue.start(outsider)
    assert queue.set_state(run, "PENDING") == "REJECT"


MOVES = {
    "Parked": lambda queue, run: None,
    "Late": lambda queue, run: fill_free_slots_sync(queue.client, queue.id),
    "AwaitingConcurrencySlot": lambda queue, run: (
        fill_free_slots_sync(queue.client, queue.id),
        bounce(queue, run),
    ),
    "Running": lambda queue, run: (fill_free_slots_sync(queue.client, queue.id), queue.start(run)),
    "Completed": lambda queue, run: (
        fill_free_slots_sync(queue.client, queue.id),
        queue.start(run),
        queue.finish(run),
    ),
    "Cancelled": lambda queue, run: queue.cancel(run),
}


@pytest.mark.parametrize("state", MOVES)
def test_the_same_key_again_is_the_same_run_whatever_became_of_it(deploy, client, state):
    """Case 36."""
    queue = deploy(limit=1)
    holder = queue.park(1)[0]
    queue.start(holder)
    (run,) = park_sync(queue.id, [{"number": 1}], submission_key="once", client=client)
    queue.finish(holder)
    MOVES[state](queue, run)
    assert queue.state_of(run) == state

    (again,) = park_sync(queue.id, [{"number": 1}], submission_key="once", client=client)

    assert (again.flow_run_id, again.already_there) == (run.flow_run_id, True)
    labelled = client.request(
        "POST", "/flow_runs/filter", json={"deployments": {"id": {"any_": [str(queue.id)]}}}
    ).json()
    assert sum(found["labels"].get("ordered-queue.submission") == "once" for found in labelled) == 1


@pytest.mark.anyio
async def test_park_returns_at_once_and_waiting_is_another_call_whose_timeout_leaves_the_run_queued(deploy, server):
    """Case 37: nobody polls here, so a call that waited for the run would not return."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    assert [run.position for run in runs] == [0, 1]

    with pytest.raises(FlowRunWaitTimeout):
        await wait_for_flow_run(runs[1].flow_run_id, timeout=1, poll_interval=1)

    assert queue.states(runs) == ["Late", "Parked"]


@pytest.mark.parametrize("requests", range(3, 8))
def test_no_run_is_ever_without_its_tag_wherever_its_submitter_died(deploy, client, requests):
    """Case 38: tag, state and time are written with the run, in one request."""
    queue = deploy(limit=1)
    options = ("key", "1", timedelta(0), timedelta(minutes=1), timedelta(minutes=30), lambda runs: None)
    submission = Submission(queue.id, [{}] * 3, *options)
    with suppress(Crash):
        drive_sync(client, crashing_after(park_steps(submission, Parking()), requests))

    body = {"deployments": {"id": {"any_": [str(queue.id)]}}}
    for found in client.request("POST", "/flow_runs/filter", json=body).json():
        assert found["tags"] == [PARKED_TAG]
        assert found["state_name"] in ("Parked", "Late")
        assert found["expected_start_time"] > (datetime.now(timezone.utc) + PARK_DELAY / 2).isoformat()


def test_a_run_whose_tag_was_taken_off_is_left_to_its_time(deploy, client):
    """Case 38: the tag makes a member; Prefect replaces the whole list when somebody changes a run's tags."""
    queue = deploy(limit=1)
    runs = queue.park(3)
    client.request("PATCH", f"/flow_runs/{runs[1].flow_run_id}", json={"tags": ["mine"]})
    queue.start(runs[0])
    queue.finish(runs[0])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Completed", "Parked", "Late"]


def test_position_and_age_of_what_waits_are_shown(deploy, capsys):
    """Case 39: to Prefect these are upcoming runs, a month ahead."""
    queue = deploy(limit=1)
    runs = queue.park(3)

    assert main(["ls", queue.name, "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["flow_run_id"], run["position"]) for run in shown[1:]] == [
        (str(run.flow_run_id), position) for position, run in enumerate(runs[1:])
    ]
    assert all(run["created"] is not None for run in shown)
    main(["ls", queue.name])
    assert "age" in capsys.readouterr().out.splitlines()[1]

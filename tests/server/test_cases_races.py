"""Cases from the field, "cancellation and races" and "retries": docs/cases.md, 26 to 31, numbered in the docstrings."""

from datetime import datetime, timedelta, timezone

import pytest

from ordered_queue import PARKED_TAG, fill_free_slots_sync, parked_time
from ordered_queue._drive import drive_sync
from ordered_queue._steps.queue import cancel_submission
from tests.server.slots import counter_of
from tests.server.test_cases_order import ids, start_a_child


def suspend(queue, run, *, process_ends=True):
    """As `suspend_flow_run` does; as `pause_flow_run` if the process stays."""
    details = {"pause_timeout": "2100-01-01T00:00:00Z", "pause_reschedule": process_ends, "pause_key": "k"}
    name = "Suspended" if process_ends else "Paused"
    assert queue.set_state(run, "PAUSED", name=name, state_details=details) == "ACCEPT"


def resume(queue, run):
    answer = queue.client.request("POST", f"/flow_runs/{run.flow_run_id}/resume", json={}).json()
    assert answer["status"] == "ACCEPT"


@pytest.mark.parametrize("is_promoted", [False, True], ids=["the parked head", "a promoted run"])
def test_a_run_that_is_cancelled_before_it_started_is_passed_over(deploy, client, is_promoted):
    """Case 26: Cancelled at once, no process, no hook."""
    queue = deploy(limit=1)
    runs = queue.park(4)
    cancelled, following = (runs[0], runs[1]) if is_promoted else (runs[1], runs[2])

    queue.cancel(cancelled)
    assert queue.state_of(cancelled) == "Cancelled"
    if not is_promoted:
        queue.start(runs[0])
        queue.finish(runs[0])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(following) == "Late"


def test_a_parent_that_is_cancelled_leaves_its_parked_runs_in_line_and_their_submission_cancels_them(deploy, client):
    """Case 28: parked runs are nobody's children to Prefect, so it does not cancel them."""
    parents, queue = deploy(limit=None), deploy(limit=1)
    parent = parents.create_outsider()
    parents.start(parent)
    children = queue.park(5, submission_key=f"of {parent}")
    others = queue.park(1)
    queue.start(children[0])

    parents.set_state(parent, "CANCELLED")
    assert queue.states(children) == ["Running", "Parked", "Parked", "Parked", "Parked"]
    drive_sync(client, cancel_submission(f"of {parent}", queue.id, []))

    assert queue.states(children) == ["Running", "Cancelled", "Cancelled", "Cancelled", "Cancelled"]
    queue.finish(children[0])
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(others[0]) == "Late"


def test_children_that_prefect_cancels_late_one_by_one_cost_the_queue_nothing(deploy, client):
    """Case 28: real children of a cancelled parent. Its clean-up comes every 20 s and gets through them by and by."""
    queue = deploy(limit=1)
    parent = deploy(limit=None).create_outsider()
    now = datetime.now(timezone.utc)

    def parked(position):
        when = {"scheduled_time": parked_time(now, position).isoformat()}
        return {"tags": [PARKED_TAG], "state": {"type": "SCHEDULED", "name": "Parked", "state_details": when}}

    children = [start_a_child(queue, parent, **parked(position)) for position in range(5)]
    fill_free_slots_sync(client, queue.id)

    for run, promoted in ((children[3], 0), (children[1], 0), (children[0], 1), (children[2], 1), (children[4], 0)):
        queue.cancel(run)
        assert fill_free_slots_sync(client, queue.id) == promoted

    assert queue.states(children) == ["Cancelled"] * 5


def test_a_run_that_waits_in_its_process_for_a_retry_holds_its_slot_and_is_left_alone(deploy, client):
    """Case 29: type SCHEDULED, tagged, in the future, and yet it does not wait."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])
    policy = {"empirical_policy": {"retries": 1, "retry_delay": 600}}
    client.request("PATCH", f"/flow_runs/{runs[0].flow_run_id}", json=policy)
    assert queue.set_state(runs[0], "FAILED") == "REJECT"
    before = queue.read(runs[0].flow_run_id)
    assert (before.state.name, before.empirical_policy.retry_type) == ("AwaitingRetry", "in_process")

    assert fill_free_slots_sync(client, queue.id) == 0

    assert queue.read(runs[0].flow_run_id).state_id == before.state_id
    assert counter_of(queue) == 1
    queue.set_state(runs[0], "CANCELLED")
    assert fill_free_slots_sync(client, queue.id) == 1


def retried_by_hand(deploy, client):
    """Four runs, of which the first has failed and is retried while the second runs."""
    queue = deploy(limit=1)
    runs = queue.park(4)
    queue.start(runs[0])
    queue.set_state(runs[0], "FAILED")
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(runs[1])
    assert queue.set_state(runs[0], "SCHEDULED", name="AwaitingRetry") == "ACCEPT"
    return queue, runs


def test_a_retry_by_hand_takes_the_next_free_slot_before_what_waits(deploy, client):
    """Case 30: the UI's Retry of a failed run, with a backlog behind it."""
    queue, runs = retried_by_hand(deploy, client)

    queue.finish(runs[1])

    assert fill_free_slots_sync(client, queue.id) == 0
    queue.start(runs[0])
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Completed", "Completed", "Late", "Parked"]


def test_a_retry_by_hand_that_finds_no_slot_waits_first_in_order(deploy, client):
    """Case 30: taken while another run has the slot, it is bounced, and stands before every parked run."""
    queue, runs = retried_by_hand(deploy, client)

    assert queue.set_state(runs[0], "PENDING") == "REJECT"
    queue.finish(runs[1])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Late", "Completed", "Parked", "Parked"]


def test_a_suspended_run_gives_its_slot_back_and_asks_for_one_when_it_is_resumed(deploy, client):
    """Beside cases 29 and 30: its process has ended. Resumed, it is promoted already and comes before what waits."""
    queue = deploy(limit=1)
    runs = queue.park(4)
    queue.start(runs[0])
    suspend(queue, runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(runs[1])

    resume(queue, runs[0])
    assert fill_free_slots_sync(client, queue.id) == 0
    assert queue.set_state(runs[0], "PENDING") == "REJECT"
    queue.finish(runs[1])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Late", "Completed", "Parked", "Parked"]


def test_a_resumed_pause_asks_for_no_slot_and_nobody_is_promoted_until_the_limit_holds(deploy, client, doctor):
    """Beside cases 29 and 30: a stated limit. Prefect runs two where the limit is 1; it is reported."""
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.start(runs[0])
    suspend(queue, runs[0], process_ends=False)
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(runs[1])

    resume(queue, runs[0])

    assert queue.states(runs) == ["Running", "Running", "Parked"]
    assert "over-limit" in doctor(queue.name)[1]
    queue.finish(runs[1])
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1


def test_two_runs_with_one_parked_time_are_promoted_one_after_the_other_by_their_ids(deploy, client):
    """Case 31: duplicates after a redeploy."""
    queue = deploy(limit=1)
    when = (datetime.now(timezone.utc) + timedelta(days=30)).isoformat()
    state = {"name": "Parked", "state_details": {"scheduled_time": when}}
    twins = sorted((queue.create_outsider(**state) for _ in range(3)), key=lambda run: run.int)
    for run in twins:
        client.request("PATCH", f"/flow_runs/{run}", json={"tags": [PARKED_TAG]})

    for run in twins:
        assert fill_free_slots_sync(client, queue.id) == 1
        assert queue.state_of(run) == "Late"
        queue.start(run)
        queue.finish(run)


def test_a_deployment_that_is_deployed_again_keeps_its_parked_runs_in_order(deploy, client):
    """Case 31: redeploying deletes what the scheduler planned, not what was parked."""
    queue = deploy(limit=1)
    runs = queue.park(3)
    found = client.read_deployment(queue.id)
    schedule = {"active": True, "schedule": {"interval": 3600, "anchor_date": "2020-01-01T00:00:00Z"}}
    body = {"name": found.name, "flow_id": str(found.flow_id), "concurrency_limit": 1, "schedules": [schedule]}

    again = [client.request("POST", "/deployments/", json=body).json()["id"] for _ in range(2)]

    assert set(again) == {str(queue.id)}
    assert queue.states(runs) == ["Late", "Parked", "Parked"]
    queue.start(runs[0])
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(ids(runs)[1]) == "Late"

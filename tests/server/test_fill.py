"""Filling, on a real server."""

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from uuid import UUID, uuid4

import pendulum
import pytest
from prefect.client.schemas.objects import State, StateDetails, StateType

import ordered_queue.promotion
from ordered_queue import PARKED_TAG, fill_free_slots_sync, park_sync, parked_time, sweep_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.fill import MOST_PROMOTIONS, Filled, fill
from tests.conftest import on_both_databases
from tests.interruption import counting_requests
from tests.server.deployed import give_work_pool, wait_until

pytestmark = on_both_databases

TIMEOUT = timedelta(minutes=30)


def test_a_submission_fills_the_free_slots_and_leaves_the_rest_parked(deploy):
    queue = deploy(limit=2)

    runs = queue.park(5)

    assert queue.states(runs) == ["Late", "Late", "Parked", "Parked", "Parked"]


def test_a_fill_promotes_the_next_run_as_each_ends(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(4)

    for current, following in pairwise(runs):
        queue.start(current)
        assert fill_free_slots_sync(client, queue.id) == 0
        queue.finish(current)
        assert fill_free_slots_sync(client, queue.id) == 1
        assert queue.state_of(following) == "Late"
        assert fill_free_slots_sync(client, queue.id) == 0


def test_runs_promoted_together_are_due_in_order(deploy, client):
    queue = deploy(limit=3)
    runs = queue.park(5)

    due = [queue.read(run.flow_run_id).next_scheduled_start_time for run in runs[:3]]

    assert due == sorted(set(due))


def test_a_reversed_decision_is_seen_as_disorder(deploy, client, monkeypatch):
    """Fill uses the public pure function: breaking that breaks the order on the server."""
    real = ordered_queue.promotion.runs_to_promote

    def reversed_decision(runs, limit, now, exclude_flow_run_id=None):
        head = [run for run in real(runs, None, now) if run.state_name == "Parked"]
        return list(reversed(head))[: len(real(runs, limit, now, exclude_flow_run_id))]

    monkeypatch.setattr(ordered_queue.promotion, "runs_to_promote", reversed_decision)
    queue = deploy(limit=1)

    runs = queue.park(3)

    assert queue.states(runs) == ["Parked", "Parked", "Late"]


def test_a_hand_over_does_not_count_the_run_that_makes_it(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.start(runs[0])

    assert fill_free_slots_sync(client, queue.id, runs[0].flow_run_id) == 1
    assert fill_free_slots_sync(client, queue.id, runs[0].flow_run_id) == 0
    assert queue.states(runs) == ["Running", "Late", "Parked"]


def test_a_bounced_run_goes_before_its_followers_when_an_outsider_took_its_slot(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(2)
    outsider = queue.create_outsider()
    queue.start(outsider)

    assert queue.set_state(runs[0], "PENDING") == "REJECT"
    assert queue.states(runs) == ["AwaitingConcurrencySlot", "Parked"]
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.finish(outsider)

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Late", "Parked"]


def test_bounced_runs_keep_their_first_order_whatever_time_prefect_gave_them(deploy, client):
    queue = deploy(limit=2)
    runs = queue.park(3)
    queue.set_limit(1)
    queue.start(runs[2] if queue.state_of(runs[2]) == "Late" else runs[1])
    # Number 0 bounces after number 2 was made to: its new time is the later one.
    for run in (runs[2], runs[0]):
        queue.set_state(run, "SCHEDULED", name="Late")
        assert queue.set_state(run, "PENDING") == "REJECT"
    queue.finish(runs[1])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Late", "Completed", "AwaitingConcurrencySlot"]


def test_an_outsider_that_is_due_counts(deploy, client):
    queue = deploy(limit=1)
    queue.create_outsider()

    runs = queue.park(2)

    assert queue.states(runs) == ["Parked", "Parked"]


@pytest.mark.parametrize("limit", [0, None])
def test_a_limit_that_changes_is_honoured_at_the_next_fill(deploy, client, limit):
    queue = deploy(limit=1)
    runs = queue.park(4)

    queue.set_limit(3)
    assert fill_free_slots_sync(client, queue.id) == 2
    queue.set_limit(1)
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.set_limit(limit)
    assert fill_free_slots_sync(client, queue.id) == (0 if limit == 0 else 1)
    assert queue.states(runs)[:3] == ["Late", "Late", "Late"]


def test_an_inactive_limit_promotes_nothing(deploy, client):
    queue = deploy(limit=1)
    limit_id = client.read_deployment(queue.id).global_concurrency_limit.id
    client.request("PATCH", f"/v2/concurrency_limits/{limit_id}", json={"active": False})

    assert queue.states(queue.park(2)) == ["Parked", "Parked"]


def test_one_fill_does_a_bounded_amount_of_work_when_the_limit_is_removed(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(MOST_PROMOTIONS + 20)
    queue.set_limit(None)

    first = fill_free_slots_sync(client, queue.id)
    second = fill_free_slots_sync(client, queue.id)

    assert first <= MOST_PROMOTIONS
    assert first + second <= MOST_PROMOTIONS + 19
    assert second > 0
    assert queue.states(runs[: first + second]).count("Late") == first + second


@pytest.mark.parametrize("waiting", [3, 150])
def test_a_fill_makes_few_requests_whatever_waits(deploy, client, waiting):
    queue = deploy(limit=1)
    runs = queue.park(waiting)
    queue.start(runs[0])

    idle: list[str] = []
    drive_sync(client, counting_requests(fill(queue.id, None, TIMEOUT, Filled()), idle))
    queue.finish(runs[0])
    promoting: list[str] = []
    drive_sync(client, counting_requests(fill(queue.id, None, TIMEOUT, Filled()), promoting))

    assert [what.split(" of ")[0] for what in idle] == [
        f"Reading deployment {queue.id}",
        "Reading the waiting runs",
        "Reading the due runs",
        "Reading the active runs",
    ]
    assert promoting == [*idle, f"Promoting flow run {runs[1].flow_run_id}"]


def test_a_run_that_nobody_takes_stops_counting_after_a_while_and_is_told_of(deploy, client):
    queue = deploy(limit=2)
    runs = queue.park(9)
    # A poller asks for runs of the deployment, and takes none: it is paused, or they are on another work queue.
    client.request("POST", "/deployments/get_scheduled_flow_runs", json={"deployment_ids": [str(queue.id)]})
    wait_until(lambda: client.read_deployment(queue.id).status.value == "READY", what="the deployment to be READY")
    filled = Filled()

    for _ in range(3):
        drive_sync(client, fill(queue.id, None, timedelta(0), filled))

    assert filled.promoted == [run.flow_run_id for run in runs[2:4]]
    assert "have not been taken for too long" in filled.notes[0]


def test_nothing_is_promoted_past_runs_that_nobody_polls_for(deploy, client):
    queue = deploy(limit=2)
    queue.park(5)
    filled = Filled()

    drive_sync(client, fill(queue.id, None, timedelta(0), filled))

    assert filled.promoted == []
    assert "they still count" in filled.notes[0]


def test_a_deployment_that_turned_to_cancel_new_is_left_alone_and_told_of(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.cancel(runs[0])
    client.request(
        "PATCH", f"/deployments/{queue.id}", json={"concurrency_options": {"collision_strategy": "CANCEL_NEW"}}
    )
    filled = Filled()

    drive_sync(client, fill(queue.id, None, TIMEOUT, filled))

    assert "CANCEL_NEW" in filled.notes[0]
    assert queue.states(runs) == ["Cancelled", "Parked"]


def test_a_tagged_deployment_does_not_pull_its_schedule_forward(deploy, client):
    queue = deploy(limit=1, tags=["ordered-queue"])
    client.request(
        "POST",
        f"/deployments/{queue.id}/schedules",
        json=[{"active": True, "schedule": {"interval": 3600, "anchor_date": "2020-01-01T00:00:00Z"}}],
    )
    client.request("POST", f"/deployments/{queue.id}/schedule", json={"min_runs": 30})

    runs = queue.park(2)

    assert queue.states(runs) == ["Late", "Parked"]


def test_a_copy_made_in_the_ui_is_an_outsider_that_happens_to_carry_the_tag(deploy, client):
    """Duplicate run copies the tags. Due now, it takes a slot; it never counts twice or jumps the order."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])
    body = {"tags": ["ordered-queue"], "parameters": {"number": 0}}
    copy = client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=body).json()["id"]
    queue.finish(runs[0])

    assert fill_free_slots_sync(client, queue.id) == 0
    outsider = queue.create_outsider()
    queue.start(outsider)
    assert queue.set_state(UUID(copy), "PENDING") == "REJECT"
    queue.finish(outsider)

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(runs[1]) == "Late"
    assert queue.state_of(UUID(copy)) == "AwaitingConcurrencySlot"


@pytest.mark.parametrize("version", ["0.0.1", "99.0.0"])
def test_runs_of_another_version_of_this_package_are_members_like_any_other(deploy, client, version, monkeypatch):
    queue = deploy(limit=1)
    monkeypatch.setattr("ordered_queue.api.__version__", version)
    theirs = queue.park(2)
    monkeypatch.undo()

    ours = queue.park(1)
    queue.start(theirs[0])
    queue.finish(theirs[0])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states([*theirs, *ours]) == ["Completed", "Late", "Parked"]


def test_a_run_tagged_by_hand_is_served_as_well(deploy, client):
    """The documented way for those who cannot use park: parked_time, PARKED_TAG, fill_free_slots."""
    queue = deploy(limit=1)
    first = queue.park(1)[0]
    base = pendulum.now("UTC")
    by_hand = [
        client.create_flow_run_from_deployment(
            queue.id,
            tags=[PARKED_TAG],
            state=State(
                type=StateType.SCHEDULED,
                name="Scheduled",
                state_details=StateDetails(scheduled_time=parked_time(base, position)),
            ),
        )
        for position in range(2)
    ]
    queue.start(first)
    queue.finish(first)

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(by_hand[0].id) == "Late"
    assert queue.state_of(by_hand[1].id) == "Scheduled"


def test_a_sweep_fills_every_queue_in_which_a_run_waits(deploy, client):
    queues = [deploy(limit=1) for _ in range(3)]
    runs = [queue.park(2) for queue in queues]
    for queue, (first, _) in zip(queues, runs, strict=True):
        queue.cancel(first)

    swept = {queue.deployment_id: queue.promoted for queue in sweep_sync(client)}

    assert [swept[queue.id] for queue in queues] == [1, 1, 1]
    assert all(queue.state_of(second) == "Late" for queue, (_, second) in zip(queues, runs, strict=True))


def test_a_sweep_of_one_queue_leaves_the_others(deploy, client):
    mine, other = deploy(limit=1), deploy(limit=1)
    for queue in (mine, other):
        queue.cancel(queue.park(2)[0])

    swept = sweep_sync(client, mine.id)

    assert [(queue.deployment_id, queue.promoted, queue.problem) for queue in swept] == [(mine.id, 1, None)]


def test_a_fill_of_a_deployment_that_is_gone_says_so_and_does_not_raise(client, caplog):
    gone = uuid4()

    assert fill_free_slots_sync(client, gone) == 0
    assert f"Could not fill the queue of deployment {gone}" in caplog.text
    assert "404" in caplog.text


def test_a_parent_with_parked_children_can_be_cancelled_without_harm(deploy, client):
    queue = deploy(limit=1)
    children = park_sync(queue.id, [{} for _ in range(3)], client=client)

    queue.cancel(children[0])
    queue.cancel(children[1])

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(children) == ["Cancelled", "Cancelled", "Late"]


def test_a_sweep_fills_every_slot_also_more_than_one_fill_may(deploy, client):
    queue = deploy(limit=130)
    waiting = queue.create_waiting(140)

    (swept,) = sweep_sync(client, queue.id)

    assert swept.promoted == 130
    assert queue.states(waiting).count("Late") == 130


def test_a_limit_above_what_five_pages_hold_is_filled(deploy, client, monkeypatch):
    """1,000 runs that occupy slots take a while to make; with pages of 10, the same is seen at 50."""
    monkeypatch.setattr("ordered_queue._steps.pages.PAGE", 10)
    monkeypatch.setattr("ordered_queue._steps.effects.PAGE", 10)
    monkeypatch.setattr("ordered_queue._calls.PAGE", 10)
    queue = deploy(limit=64)
    queue.create_waiting(62)
    sweep_sync(client, queue.id)

    more = queue.create_waiting(3)
    sweep_sync(client, queue.id)

    assert queue.states(more).count("Late") == 2


def test_a_run_that_no_worker_is_ever_given_holds_nobody_up(deploy, client):
    """Its deployment had no work pool when it was parked; a run's work queue cannot be changed."""
    queue = deploy(limit=1)
    stranded = queue.create_waiting(2)
    give_work_pool(queue)
    filled = Filled()

    drive_sync(client, fill(queue.id, None, timedelta(minutes=30), filled))
    runs = queue.park(2)

    assert "2 scheduled run(s) belong to no work queue" in filled.notes[0]
    assert queue.states([*stranded, runs[0].flow_run_id]) == ["Parked", "Parked", "Late"]


def test_a_run_put_in_the_future_by_hand_is_not_pulled_forward_where_the_deployment_carries_the_tag(deploy, client):
    queue = deploy(limit=1, tags=[PARKED_TAG])
    in_six_hours = (datetime.now(timezone.utc) + timedelta(hours=6)).isoformat()
    body = {"state": {"type": "SCHEDULED", "state_details": {"scheduled_time": in_six_hours}}, "tags": [PARKED_TAG]}
    later = UUID(client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=body).json()["id"])

    assert sweep_sync(client, queue.id)[0].promoted == 0
    assert queue.state_of(later) == "Scheduled"


def test_the_excluded_run_may_be_named_as_prefects_runtime_names_it(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])

    assert fill_free_slots_sync(client, queue.id, str(runs[0].flow_run_id)) == 1

"""Faults that somebody found by trying to break the queue. Each was seen to fail before it was mended."""

from datetime import datetime, timedelta, timezone

import pytest

from ordered_queue import InvalidRun, RunRequest, SubmissionIncomplete, fill_free_slots_sync, park_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.fill import Filled, fill
from ordered_queue._steps.park import Parking, Submission
from ordered_queue._steps.park import park as park_steps
from ordered_queue._steps.queue import cancel_submission
from tests.interruption import Crash, crashing_after, with_interruption
from tests.server.test_park import numbers, waiting_numbers

TIMEOUT = timedelta(minutes=30)


def with_key(number, key):
    return RunRequest({"number": number}, idempotency_key=key)


def test_a_key_that_an_earlier_submission_used_moves_nobody_before_others(deploy, client):
    queue = deploy(limit=1)
    mine = f"mine-{queue.id}"
    park_sync(queue.id, [with_key(0, mine)], client=client)
    park_sync(queue.id, numbers(3, start=1), client=client)

    park_sync(queue.id, [{"number": 4}, {"number": 5}, with_key(0, mine)], client=client)

    assert waiting_numbers(client, queue) == [0, 1, 2, 3, 4, 5]


def test_a_key_of_a_run_that_was_never_parked_makes_nothing_due(deploy, client):
    queue = deploy(limit=1)
    mine = f"order-{queue.id}"
    body = {"idempotency_key": mine, "parameters": {"number": 42}}
    client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=body)

    parked = park_sync(queue.id, [*numbers(3), with_key(42, mine)], client=client)

    assert all(run.parked_time > datetime.now(timezone.utc) + timedelta(days=29) for run in parked[:3])
    assert parked[3].already_there
    assert queue.states(parked[:3]) == ["Parked"] * 3


def test_what_can_be_iterated_only_once_is_told_of(deploy, client):
    class Wrapped:
        """As a progress bar wraps a generator."""

        def __init__(self, rows):
            self.rows = rows

        def __iter__(self):
            yield from self.rows

    with pytest.raises(SubmissionIncomplete, match="3 runs were checked, and only 0 came"):
        park_sync(deploy(limit=1).id, Wrapped(iter(numbers(3))), client=client)


@pytest.mark.parametrize("requests", [5, 6, 7])
def test_a_submitter_that_stalled_stands_behind_what_another_parked_with_its_key(deploy, client, requests):
    queue = deploy(limit=1)

    def submission():
        options = ("both", "1", timedelta(0), timedelta(minutes=1), TIMEOUT, lambda runs: None)
        return park_steps(Submission(queue.id, numbers(250), *options), Parking())

    def another_parks_a_chunk_and_dies():
        with pytest.raises(Crash):
            drive_sync(client, crashing_after(submission(), requests))

    # After the stalled one has read the end of the queue, before it creates anything.
    drive_sync(client, with_interruption(submission(), 4, another_parks_a_chunk_and_dies))

    assert waiting_numbers(client, queue) == list(range(250))


def test_a_hole_in_front_of_runs_of_two_calls_is_filled_at_its_own_place(deploy, client):
    queue = deploy(limit=1)
    park_sync(queue.id, numbers(30), submission_key="s", client=client)
    runs = park_sync(queue.id, numbers(60), submission_key="s", client=client)
    queue.delete(runs[10])

    park_sync(queue.id, numbers(60), submission_key="s", client=client)

    assert waiting_numbers(client, queue) == list(range(60))


def test_no_slot_is_given_away_when_due_runs_are_taken_between_two_pages(deploy, client):
    queue = deploy(limit=300)
    due = queue.create_waiting(240)
    assert sum(fill_free_slots_sync(client, queue.id) for _ in range(6)) == 240
    waiting = queue.create_waiting(90)
    taken = due[:5]

    more = Filled()
    steps = fill(queue.id, None, TIMEOUT, more)
    drive_sync(client, with_interruption(steps, 4, lambda: [queue.set_state(run, "PENDING") for run in taken]))

    assert len(more.promoted) == 60
    assert queue.states(waiting).count("Late") == 60


def test_the_first_of_many_bounced_runs_is_not_skipped_when_one_bounces_again(deploy, client):
    queue = deploy(limit=40)
    runs = queue.park(40)
    outsiders = [queue.create_outsider() for _ in range(2)]
    queue.set_limit(1)
    queue.start(outsiders[0])
    for run in runs:
        assert queue.set_state(run, "PENDING") == "REJECT"
    queue.finish(outsiders[0])
    queue.cancel(outsiders[1])

    def the_first_bounces_again():
        queue.set_state(runs[1], "SCHEDULED", name="AwaitingConcurrencySlot", state_details=in_a_minute())

    steps = fill(queue.id, None, TIMEOUT, filled := Filled())
    drive_sync(client, with_interruption(steps, 3, the_first_bounces_again))

    assert filled.promoted == [runs[0].flow_run_id]


def test_cancelling_a_submission_misses_nobody_when_others_leave_between_two_pages(deploy, client):
    queue = deploy(limit=1)
    runs = queue.park(210, submission_key="s")
    cancelled = []

    def somebody_cancels_five():
        for run in runs[1:6]:
            queue.cancel(run)

    drive_sync(client, with_interruption(cancel_submission("s", queue.id, cancelled), 2, somebody_cancels_five))

    assert queue.states(runs[6:206]) == ["Cancelled"] * 200
    assert queue.states(runs[206:]) == ["Cancelled"] * 4


def in_a_minute():
    return {"scheduled_time": (datetime.now(timezone.utc) + timedelta(minutes=1)).isoformat()}


def test_what_the_server_says_of_a_row_is_told_at_once(deploy, client):
    queue = deploy(limit=1)
    template = {"number": {"__prefect_kind": "workspace_variable", "variable_name": "there-is-none"}}

    with pytest.raises(InvalidRun, match="there-is-none"):
        park_sync(queue.id, [template], client=client)


def test_more_tags_than_prefect_can_bear_are_refused(deploy, client):
    with pytest.raises(InvalidRun, match="90 are the most"):
        park_sync(deploy(limit=1).id, [RunRequest({}, tags=tuple(map(str, range(90))))], client=client)


def test_tags_given_as_one_text_are_refused(deploy, client):
    with pytest.raises(InvalidRun, match="its tags are one text, 'prod'"):
        park_sync(deploy(limit=1).id, [RunRequest({}, tags="prod")], client=client)


def test_a_run_with_as_many_tags_as_are_allowed_can_be_promoted(deploy, client):
    queue = deploy(limit=1)

    runs = park_sync(queue.id, [RunRequest({}, tags=tuple(map(str, range(89))))], client=client)

    assert queue.states(runs) == ["Late"]
    assert fill_free_slots_sync(client, queue.id) == 0

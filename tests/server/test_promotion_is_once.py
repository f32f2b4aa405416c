"""Promotion meets a cancel, a start, an end, a deletion and other promoters: once, and never back to life.

Each of these is run a second time with promotion writing a plain ``Scheduled``, to see that it would be noticed.
"""

import random
import threading
import time
from datetime import timedelta

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import _calls, fill_free_slots_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.effects import Patience, ask
from ordered_queue._steps.fill import Filled, fill, promote
from tests.conftest import on_both_databases
from tests.interruption import with_interruption

pytestmark = on_both_databases

TIMEOUT = timedelta(minutes=30)
ROUNDS = 200
LONGEST_OFFSET_SECONDS = 0.030

# How the head of the queue moves on between the read and the write, and the state that must remain.
MOVES = {
    "cancelled": (lambda queue, run: queue.cancel(run), "Cancelled"),
    "started": (lambda queue, run: promoted_and_started(queue, run), "Running"),
    "pending": (lambda queue, run: queue.set_state(run, "PENDING"), "Pending"),
    "finished": (lambda queue, run: (promoted_and_started(queue, run), queue.finish(run)), "Completed"),
    "deleted": (lambda queue, run: queue.delete(run), "gone"),
    "promoted": (lambda queue, run: fill_free_slots_sync(queue.client, queue.id), "Late"),
}


def promoted_and_started(queue, run):
    """Another promoter was quicker, and so was a runner."""
    assert fill_free_slots_sync(queue.client, queue.id) == 1
    queue.start(run)


@pytest.fixture
def plain_scheduled(monkeypatch):
    """Promotion as it must not be: a plain Scheduled, which Prefect accepts from any state of a deployed run."""
    monkeypatch.setattr(_calls, "PROMOTED_STATE", "Scheduled")


def a_waiting_head(deploy, runs=3):
    """A queue whose slot has just become free."""
    queue = deploy(limit=1)
    first, *waiting = queue.park(runs)
    queue.cancel(first)
    return queue, waiting


@pytest.mark.parametrize("move", MOVES)
def test_promotion_leaves_a_run_alone_when_it_moved_on_between_read_and_write(deploy, client, move):
    act, remains = MOVES[move]
    queue, waiting = a_waiting_head(deploy)
    steps = fill(queue.id, None, TIMEOUT, filled := Filled())

    drive_sync(client, with_interruption(steps, 5, lambda: act(queue, waiting[0])))

    head_moved_out = move in ("cancelled", "finished", "deleted")
    assert queue.states(waiting) == [remains, "Late" if head_moved_out else "Parked"]
    assert filled.promoted == ([waiting[1].flow_run_id] if head_moved_out else [])


@pytest.mark.parametrize("move", ["cancelled", "started", "finished"])
def test_a_plain_scheduled_would_bring_a_run_back_to_life(deploy, client, move, plain_scheduled):
    act, remains = MOVES[move]
    queue, waiting = a_waiting_head(deploy)

    drive_sync(
        client,
        with_interruption(fill(queue.id, None, TIMEOUT, Filled()), 5, lambda: act(queue, waiting[0])),
    )

    assert queue.state_of(waiting[0]) != remains


@pytest.mark.parametrize("request_number", [1, 2, 3, 4, 5])
def test_two_promoters_that_meet_at_any_step_promote_one_run_between_them(deploy, client, request_number):
    queue, waiting = a_waiting_head(deploy)
    other: list[int] = []

    mine = Filled()
    drive_sync(
        client,
        with_interruption(
            fill(queue.id, None, TIMEOUT, mine),
            request_number,
            lambda: other.append(fill_free_slots_sync(client, queue.id)),
        ),
    )

    assert len(mine.promoted) + sum(other) == 1
    assert queue.states(waiting) == ["Late", "Parked"]


class Racer:
    """Somebody with a connection of their own who acts at the same moment as we do."""

    def __init__(self, api_url, act):
        self.go, self.done = threading.Barrier(2), threading.Barrier(2)
        self.api_url, self.act = api_url, act
        self.target = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with (
            temporary_settings(updates={PREFECT_API_URL: self.api_url}),
            get_client(httpx_settings={"timeout": 31}, sync_client=True) as client,
        ):
            while True:
                self.go.wait()
                if self.target is None:
                    return
                time.sleep(random.uniform(0, LONGEST_OFFSET_SECONDS))
                self.act(client, self.target)
                self.done.wait()

    def race(self, target, mine):
        self.target = target
        self.go.wait()
        time.sleep(random.uniform(0, LONGEST_OFFSET_SECONDS))
        mine()
        self.done.wait()

    def stop(self):
        self.target = None
        self.go.wait()
        self.thread.join()


def set_state(client, run, kind):
    return client.request("POST", f"/flow_runs/{run}/set_state", json={"state": {"type": kind}}).json()


def cancel(client, run):
    set_state(client, run, "CANCELLING")


def start(client, run):
    set_state(client, run, "PENDING")
    set_state(client, run, "RUNNING")


def violations(queue, client, server, act, must_remain, rounds):
    """How many runs were brought back from where the other side had put them, in so many rounds of the race.

    The last state tells, not the states' timestamps: those are taken before the run's row is locked.
    """
    racer = Racer(server.api_url, act)
    # A wide limit, so that the other side always finds a slot: what is tested is the race, not the limit.
    runs = queue.create_waiting(rounds)
    try:
        for run in runs:
            racer.race(run, lambda run=run: drive_sync(client, promote_after_reading(run)))
    finally:
        racer.stop()
    return sum(state not in must_remain for state in queue.states(runs))


def promote_after_reading(run):
    """What a fill does to one run: read, then write."""
    patience = Patience(10, 20)
    answer = yield from ask(_calls.read_run(run), patience)
    if answer.body["state"]["type"] == "SCHEDULED":
        yield from promote(run, answer.now, patience)


RACES = {"a cancel": (cancel, ("Cancelled",)), "a start": (start, ("Pending", "Running"))}


@pytest.mark.parametrize("against", RACES)
def test_no_run_comes_back_to_life_when_promotion_races(deploy, client, server, against):
    act, must_remain = RACES[against]

    assert violations(deploy(limit=1000), client, server, act, must_remain, ROUNDS) == 0


@pytest.mark.parametrize("against", RACES)
def test_the_race_would_notice_a_plain_scheduled(deploy, client, server, against, plain_scheduled):
    act, must_remain = RACES[against]

    assert violations(deploy(limit=1000), client, server, act, must_remain, ROUNDS // 4) > 0

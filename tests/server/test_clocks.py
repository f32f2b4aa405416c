"""Submitters' clocks are wrong, go backwards, or cross a change of daylight-saving time: the order stays.

What a submitter takes for now enters in one place, the driver. These tests move that clock; what stands on it is the
real client and the real server.
"""

import time
from datetime import datetime, timedelta, timezone

import pytest

import ordered_queue._drive
from ordered_queue import PARK_DELAY, park_sync
from tests.conftest import on_both_databases
from tests.server.test_park import numbers, waiting_numbers

pytestmark = on_both_databases

EACH = 3
MINUTES_OFF = {
    "ahead, then right": (10, 0),
    "behind, then right": (-10, 0),
    "right, then ahead": (0, 10),
    "right, then behind": (0, -10),
    "backwards again and again": (15, 5, -5, -15),
    "by hours": (0, -20 * 60, 3 * 60),
    "within the tolerance, backwards": (0.04, -0.04),
}


@pytest.fixture
def set_clock(monkeypatch):
    """Let the submitter's clock be so many minutes off."""

    def set_to(minutes):
        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(minutes=minutes)

        monkeypatch.setattr(ordered_queue._drive, "datetime", Clock)

    return set_to


def submit_with_each_clock(queue, client, set_clock, offsets):
    """One submission after the other, each with its own clock, which it keeps to its end."""
    parked = []
    for submission, minutes in enumerate(offsets):
        set_clock(minutes)
        parked += park_sync(queue.id, numbers(EACH, start=submission * EACH), client=client)
    return parked


def assert_in_order(queue, client, parked):
    times = [run.parked_time for run in parked]
    assert times == sorted(set(times))
    assert waiting_numbers(client, queue) == list(range(len(parked)))


@pytest.mark.parametrize("offsets", MINUTES_OFF.values(), ids=MINUTES_OFF)
def test_submitters_whose_clocks_differ_append_in_turn_and_near_the_servers_time(deploy, client, set_clock, offsets):
    queue = deploy(limit=1)

    parked = submit_with_each_clock(queue, client, set_clock, offsets)

    assert_in_order(queue, client, parked)
    assert queue.states(parked) == ["Late", *["Parked"] * (len(parked) - 1)]
    now = datetime.now(timezone.utc)
    assert all(abs(run.parked_time - PARK_DELAY - now) < timedelta(minutes=2) for run in parked)


@pytest.mark.parametrize("offsets", MINUTES_OFF.values(), ids=MINUTES_OFF)
def test_submitters_append_in_turn_where_a_proxy_keeps_the_servers_time_from_them(
    deploy, client, set_clock, monkeypatch, offsets
):
    """Up to a day: what lies farther ahead of a submitter's now is taken for put there by hand."""
    monkeypatch.setattr(ordered_queue._drive, "CLOCK_TOLERANCE", timedelta.max)
    # Nothing is promoted, whatever the clock: what is tested is where runs are parked.
    queue = deploy(limit=1)
    queue.set_limit(0)

    assert_in_order(queue, client, submit_with_each_clock(queue, client, set_clock, offsets))


@pytest.mark.parametrize(
    ("before", "after"),
    [("CET-1", "CEST-2"), ("CEST-2", "CET-1")],
    ids=["the wall clock goes an hour forward", "the wall clock goes an hour back"],
)
def test_a_change_of_daylight_saving_time_between_two_submissions_moves_nothing(
    deploy, client, monkeypatch, before, after
):
    queue = deploy(limit=1)
    monkeypatch.setenv("TZ", before)
    time.tzset()
    try:
        parked = park_sync(queue.id, numbers(3), client=client)
        monkeypatch.setenv("TZ", after)
        time.tzset()
        parked += park_sync(queue.id, numbers(3, start=3), client=client)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert_in_order(queue, client, parked)
    assert parked[-1].parked_time - parked[0].parked_time < timedelta(minutes=2)

"""The soak's verdict sees what must not happen, and does not see it where it did not."""

from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

from bench.soak_verdict import BOUNCED, PROMOTED, Entry, History, judge

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
IN_AN_HOUR = timedelta(hours=1)
KEY = "submission"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def parked(seconds: float) -> Entry:
    return Entry(at(seconds), "SCHEDULED", "Scheduled", at(seconds) + IN_AN_HOUR)


def promoted(seconds: float) -> Entry:
    return Entry(at(seconds), "SCHEDULED", PROMOTED, at(seconds))


def bounced(seconds: float) -> Entry:
    return Entry(at(seconds), "SCHEDULED", BOUNCED, at(seconds + 30))


def active(seconds: float, name: str = "Running") -> Entry:
    return Entry(at(seconds), name.upper(), name)


def ended(seconds: float, name: str = "Completed") -> Entry:
    return Entry(at(seconds), name.upper(), name)


def executed(start: float, end: float) -> list[Entry]:
    return [promoted(start), active(start + 1, "Pending"), active(start + 2), ended(end)]


def verdict_of(
    *runs: list[Entry],
    limit: int = 1,
    times: Counter[str] | None = None,
    wanted: int | None = None,
    kill: float = -1e6,
) -> dict[str, int]:
    """What is not 0 of the verdict on runs in the order in which they are parked."""
    histories = [
        History(str(place), f"{KEY}/{place}", at(place / 1000) + IN_AN_HOUR, at(0), states[-1].type, states)
        for place, states in enumerate(runs)
    ]
    count = len(runs) if wanted is None else wanted
    counts = judge(histories, limit, {KEY: count}, times or Counter(), [at(kill)], at(3600)).counts
    return {what: number for what, number in counts.items() if number and what not in ("submitted", "promotions")}


def test_nothing_is_found_when_runs_follow_each_other():
    assert verdict_of([parked(0), *executed(1, 5)], [parked(0), *executed(6, 9)]) == {"completed": 2}


def test_an_overtaken_run_is_out_of_order():
    assert verdict_of([parked(0), *executed(60, 70)], [parked(0), *executed(20, 30)])["out of order"] == 1


def test_a_run_that_came_in_just_before_is_overtaken_by_a_race():
    found = verdict_of([parked(15), *executed(60, 70)], [parked(0), *executed(20, 30)])
    assert found == {"completed": 2, "overtaken by a race": 1}


def test_a_bounced_run_waits_before_all_others_until_it_is_due():
    behind = [parked(0), *executed(20, 30)]
    waits = [parked(0), promoted(1), active(2, "Pending"), bounced(5), promoted(60), active(61, "Pending"), ended(70)]
    assert verdict_of(waits, behind)["out of order"] == 1


def test_a_bounced_run_that_is_due_is_not_overtaken_but_occupies():
    due = [parked(0), promoted(1), active(2, "Pending"), bounced(5), active(60, "Pending"), active(61), ended(70)]
    behind = [parked(0), *executed(40, 45)]
    assert verdict_of(due, behind, limit=2) == {"completed": 2}
    assert verdict_of(due, behind, limit=1) == {"completed": 2, "promoted beyond the limit": 1}


def test_a_promotion_of_what_has_long_been_due_is_one_that_did_not_wait():
    due = [parked(0), promoted(1), active(2, "Pending"), bounced(5), promoted(60), active(61, "Pending"), ended(70)]
    assert verdict_of(due) == {"completed": 1, "promoted while it did not wait": 1}


def test_a_promotion_beyond_the_limit_is_seen():
    found = verdict_of([parked(0), *executed(1, 50)], [parked(0), *executed(6, 9)])
    assert found == {"completed": 2, "promoted beyond the limit": 1}


def test_a_promotion_of_what_runs_is_seen():
    found = verdict_of([parked(0), promoted(1), active(2), promoted(3), active(4, "Pending"), ended(9)])
    assert found == {"completed": 1, "promoted while it did not wait": 1}


def test_an_ended_run_that_is_promoted_and_runs_again_is_revived():
    assert verdict_of([parked(0), *executed(1, 5), *executed(20, 30)])["revived"] == 1


def test_lost_doubled_and_repeated_runs_are_seen():
    run = [parked(0), *executed(1, 5)]
    assert verdict_of(run, wanted=3)["lost"] == 2
    assert verdict_of(run, times=Counter({"0": 2}))["executed twice"] == 1
    twice = [History(str(number), f"{KEY}/0", at(0), at(0), "COMPLETED", run) for number in range(2)]
    assert judge(twice, 1, {KEY: 1}, Counter(), [], at(3600)).counts["parked twice"] == 1


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ([parked(0)], "still waiting"),
        ([parked(0), promoted(1), active(2)], "stuck"),
        ([parked(0), promoted(1), active(2), ended(3, "Crashed")], "crashed"),
        ([parked(0), promoted(1), active(2), ended(3, "Failed")], "failed"),
        ([parked(0), ended(3, "Cancelled")], "cancelled"),
    ],
)
def test_each_run_has_an_outcome(states, outcome):
    assert verdict_of(states) == {outcome: 1}


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ([parked(0), promoted(1), active(2)], "left active by our kills"),
        ([parked(0), promoted(1), active(2), ended(3, "Crashed")], "crashed by our kills"),
    ],
)
def test_what_a_kill_explains_is_not_held_against_the_queue(states, outcome):
    assert verdict_of(states, kill=2.5) == {outcome: 1}


def test_a_slot_is_idle_while_a_run_waits_and_none_is_taken():
    runs = [
        History("0", "s/0", at(0), at(0), "COMPLETED", [parked(0), *executed(1, 5)]),
        History("1", "s/1", at(1), at(0), "COMPLETED", [parked(0), *executed(12, 15)]),
    ]
    idle, since = judge(runs, 1, {}, Counter(), [], at(3600)).longest["slot idle while a run waited"]
    assert (idle, since) == (timedelta(seconds=7), at(5))

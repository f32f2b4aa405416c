from datetime import timedelta
from uuid import UUID

import pytest

from ordered_queue.cli.listing import as_object, columns_for, header, in_words, shown_runs
from ordered_queue.promotion import decide, limit_of
from ordered_queue.runs import QueueListing, Standing
from ordered_queue.submission import SUBMISSION_LABEL
from tests.factories import NOW, a_deployment, a_run, bounced, parked, promoted, running


def a_listing(*runs, limit: int | None = 2, is_whole: bool = True, **fields) -> QueueListing:
    aside = fields.pop("aside", {})
    deployment = a_deployment(limit, **fields)
    return QueueListing(deployment, NOW, decide(runs, limit_of(deployment), NOW, aside=aside), is_whole)


def test_a_listing_shows_what_occupies_first_and_then_what_waits_in_order():
    outsider = a_run(9, due=NOW - timedelta(seconds=1), tags=())
    younger, older = running(1), running(2, since=NOW - timedelta(hours=1))
    listing = a_listing(parked(5), promoted(3), bounced(6, parked_at=0), outsider, younger, older, parked(4))

    shown = [(run.verdict.run.id.int, run.state, run.verdict.position) for run in shown_runs(listing, 50)]

    assert shown == [
        (2, "Running", None),
        (1, "Running", None),
        (3, "promoted", None),
        (9, "due, not queued", None),
        (6, "waiting (bounced)", 0),
        (4, "waiting", 1),
        (5, "waiting", 2),
    ]


def test_a_listing_shows_runs_out_of_reach_last_without_a_slot_or_a_position():
    stranded = [parked(1), promoted(2), parked(3)]
    listing = a_listing(*stranded, parked(4), aside={run.id: Standing.OUT_OF_REACH for run in stranded})

    shown = [(run.verdict.run.id.int, run.state, run.verdict.position) for run in shown_runs(listing, 2)]
    found = as_object("a/b", listing, shown_runs(listing, 50), 50)

    assert shown == [(4, "waiting", 0), (2, "Late (out of reach)", None), (1, "Parked (out of reach)", None)]
    assert header("a/b", listing, 50) == "a/b: limit 2, 0 occupied, 1 waiting, 3 out of reach"
    assert (found["occupied"], found["waiting"], found["out_of_reach"]) == (0, 1, 3)
    assert (found["runs"][1]["standing"], found["runs"][1]["reason"]) == (
        "out of reach",
        "no worker is ever given it, for it belongs to no work queue",
    )


def test_a_listing_shows_a_zombie_behind_what_occupies_and_gives_its_slot_to_the_next():
    listing = a_listing(running(1), running(2), parked(3), aside={UUID(int=1): Standing.ZOMBIE})

    shown = [(run.verdict.run.id.int, run.state) for run in shown_runs(listing, 50)]
    found = as_object("a/b", listing, shown_runs(listing, 50), 50)

    assert shown == [(2, "Running"), (1, "Running (no sign of life)"), (3, "waiting")]
    assert header("a/b", listing, 50) == "a/b: limit 2, 1 occupied, 1 waiting, 1 without a sign of life"
    assert (found["occupied"], found["zombies"]) == (1, 1)
    assert found["runs"][1]["standing"] == "zombie"
    assert [run.id.int for run in listing.decision.promote] == [3]


def test_a_listing_shows_no_more_waiting_runs_than_asked_for():
    listing = a_listing(running(1), parked(2), parked(3), parked(4), is_whole=False)

    assert [run.verdict.run.id.int for run in shown_runs(listing, 2)] == [1, 2, 3]
    assert header("etl/nightly", listing, 2) == "etl/nightly: limit 2, 1 occupied, more than 2 waiting"


def test_a_header_counts_what_waits_when_all_was_read():
    assert header("a/b", a_listing(parked(2), limit=None), 50) == "a/b: no limit, 0 occupied, 1 waiting"


def test_a_header_says_that_the_deployment_is_paused():
    assert header("a/b", a_listing(parked(2), paused=True), 50) == "a/b: limit 2, 0 occupied, 1 waiting, paused"


def test_a_header_promises_no_more_than_it_saw_when_others_stood_among_the_waiting():
    scheduled = parked(3, auto_scheduled=True)

    assert header("a/b", a_listing(parked(2), scheduled, is_whole=False), 1).endswith("at least 1 waiting")


def test_an_object_holds_what_a_program_needs():
    listing = a_listing(parked(2, labels={SUBMISSION_LABEL: "load"}, created=NOW - timedelta(hours=1)), limit=0)

    found = as_object("etl/nightly", listing, shown_runs(listing, 50), 50)

    assert found == {
        "deployment": "etl/nightly",
        "deployment_id": str(listing.deployment.id),
        "now": NOW.isoformat(),
        "paused": False,
        "limit": 0,
        "occupied": 0,
        "waiting": 1,
        "more_waiting": False,
        "out_of_reach": 0,
        "zombies": 0,
        "runs": [
            {
                "flow_run_id": str(parked(2).id),
                "name": "run-2",
                "standing": "waiting",
                "state": "Parked",
                "position": 0,
                "reason": "every slot is occupied or promised to an earlier run",
                "since": NOW.isoformat(),
                "created": (NOW - timedelta(hours=1)).isoformat(),
                "submission": "load",
            }
        ],
    }


@pytest.mark.parametrize(("width", "missing"), [(400, set()), (149, {"submission"}), (80, {"submission", "name"})])
def test_a_table_drops_columns_and_never_the_id_when_it_is_narrow(width, missing):
    every = set(columns_for(1_000))

    assert every - set(columns_for(width)) == missing
    assert "flow run" in columns_for(width)


def test_an_age_is_told_in_words():
    assert in_words(NOW, NOW - timedelta(minutes=3)) == "3 minutes"
    assert in_words(NOW, None) == ""

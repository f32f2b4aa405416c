"""What a doctor finds, judged from a queue made by hand."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import DeploymentStatus, StateType, WorkPool, WorkQueue

from ordered_queue import PARK_DELAY, PARKED_TAG
from ordered_queue._doctor.diagnosis import diagnose, diagnose_all
from ordered_queue._doctor.findings import (
    EndZombie,
    Finding,
    Kind,
    LowerCounter,
    Severity,
    by_severity,
    needs_attention,
)
from ordered_queue._doctor.observation import Observation
from ordered_queue.counting import counter_of
from tests.factories import NOW, a_deployment, a_run, bounced, parked, promoted, running

DEPLOYMENT_ID = UUID(int=1000)
MINUTE = timedelta(minutes=1)


def a_limited_deployment(limit=1, *, active_slots=0, untouched_for=timedelta(0), **fields):
    """A polled deployment, whose counter was not touched for so long."""
    fields = {"status": DeploymentStatus.READY, "last_polled": NOW, **fields}
    made = a_deployment(limit, active_slots=active_slots, **fields)
    if made.global_concurrency_limit is not None:
        made.global_concurrency_limit.updated = NOW - untouched_for
    return made


def an_observation(*runs, deployment=None, **fields):
    """A queue in which nothing moved while it was read."""
    deployment = deployment or a_limited_deployment()
    return Observation(
        **{"deployment": deployment, "counter_before": counter_of(deployment), "now": NOW, **fields}, runs=runs
    )


def kinds(*runs, **fields):
    return [finding.kind for finding in diagnose(an_observation(*runs, **fields))]


def lease_of(run):
    return run.state.state_details.deployment_concurrency_lease_id


def test_a_healthy_queue_has_no_findings():
    deployment = a_limited_deployment(limit=2, active_slots=1)
    occupying = running(1, lease=True)

    assert diagnose(an_observation(occupying, promoted(2), parked(3), parked(4), deployment=deployment)) == ()


def test_a_counter_that_leaked_can_be_lowered_once_no_lease_can_give_anything_back():
    deployment = a_limited_deployment(limit=4, active_slots=3, untouched_for=11 * MINUTE)

    (found,) = diagnose(an_observation(running(1, lease=True), deployment=deployment))

    assert found == Finding(
        Kind.COUNTER_TOO_HIGH,
        "active_slots is 3, while 1 of its runs hold a slot",
        "run `ordered-queue doctor --fix`",
        DEPLOYMENT_ID,
        since=NOW - 11 * MINUTE,
        age=11 * MINUTE,
        remedy=LowerCounter(f"deployment:{DEPLOYMENT_ID}", 2),
    )


@pytest.mark.parametrize(
    "fields",
    [{"untouched_for": 9 * MINUTE}, {"untouched_for": 11 * MINUTE, "is_active": False}],
    ids=["a lease may still lapse", "inactive"],
)
def test_a_counter_that_is_too_high_is_only_told_of_while_lowering_it_might_count_twice(fields):
    deployment = a_limited_deployment(limit=4, active_slots=3, **fields)

    (found,) = diagnose(an_observation(deployment=deployment))

    assert (found.kind, found.remedy) == (Kind.COUNTER_TOO_HIGH, None)


def test_a_longer_lease_of_the_deployments_own_is_waited_for():
    deployment = a_limited_deployment(active_slots=1, untouched_for=60 * MINUTE, strategy="ENQUEUE")
    deployment.concurrency_options.grace_period_seconds = 7200

    (found,) = diagnose(an_observation(deployment=deployment))

    assert (found.kind, found.remedy) == (Kind.COUNTER_TOO_HIGH, None)


def test_a_run_from_before_the_limit_is_no_reason_to_call_the_counter_wrong():
    assert kinds(running(1), deployment=a_limited_deployment(limit=2, active_slots=1)) == []


def test_nothing_is_said_of_the_counter_when_it_moved_while_the_runs_were_read():
    before = a_limited_deployment(limit=4, active_slots=2, untouched_for=11 * MINUTE)
    after = a_limited_deployment(limit=4, active_slots=3)

    assert kinds(deployment=after, counter_before=counter_of(before)) == []


def test_a_zombie_is_ended_only_long_after_its_lease():
    zombie = running(1, since=NOW - 16 * MINUTE, lease=True)

    (found,) = diagnose(an_observation(zombie))

    assert found == Finding(
        Kind.ZOMBIE,
        "flow run run-1 is Running, but the server counts fewer slots than there are such runs: the lease of this one, "
        "the oldest, has most likely lapsed with its process",
        "see that its process is gone, then `ordered-queue doctor --fix`",
        DEPLOYMENT_ID,
        (zombie.id,),
        since=NOW - 16 * MINUTE,
        age=16 * MINUTE,
        remedy=EndZombie(zombie.id, zombie.state.id, lease_of(zombie), f"deployment:{DEPLOYMENT_ID}", "CRASHED"),
    )
    (younger,) = diagnose(an_observation(running(1, since=NOW - 14 * MINUTE, lease=True)))
    assert (younger.kind, younger.remedy) == (Kind.ZOMBIE, None)


def test_a_cancelling_zombie_is_cancelled_since_prefect_accepts_nothing_else():
    zombie = a_run(1, type=StateType.CANCELLING, since=NOW - 60 * MINUTE, lease=True)

    (found,) = diagnose(an_observation(zombie))

    assert found.kind is Kind.ZOMBIE
    assert found.remedy.state_type == "CANCELLED"


def test_a_counter_that_is_short_is_told_of_before_a_zombie_can_be_named():
    (found,) = diagnose(an_observation(running(1, lease=True)))

    assert (found.kind, found.kind.severity) == (Kind.COUNTER_TOO_LOW, Severity.INFO)


def test_more_runs_at_work_than_the_limit_allows_are_told_of_the_newest_first():
    first, second = running(1, since=NOW - 3 * MINUTE), running(2, since=NOW - 2 * MINUTE)

    (found,) = diagnose(an_observation(first, second))

    assert (found.kind, found.flow_run_ids) == (Kind.OVER_LIMIT, (second.id, first.id))
    assert found.since == NOW - 2 * MINUTE
    assert found.what == "2 runs (run-2, run-1) hold a slot, the limit is 1"
    assert kinds(first, second, deployment=a_limited_deployment(limit=2)) == []


def test_runs_long_in_a_state_that_holds_a_slot_are_named():
    pending = a_run(1, type=StateType.PENDING, since=NOW - 21 * MINUTE)
    cancelling = a_run(2, type=StateType.CANCELLING, since=NOW - 11 * MINUTE)
    long = running(3, since=NOW - timedelta(days=2))
    young = [a_run(4, type=StateType.PENDING, since=NOW - 19 * MINUTE), running(5, since=NOW - timedelta(hours=20))]

    found = diagnose(an_observation(pending, cancelling, long, *young, deployment=a_limited_deployment(None)))

    assert [(finding.kind, finding.flow_run_ids) for finding in found] == [
        (Kind.LONG_PENDING, (pending.id,)),
        (Kind.LONG_CANCELLING, (cancelling.id,)),
        (Kind.LONG_RUNNING, (long.id,)),
        (Kind.NO_LIMIT, ()),
    ]


def test_a_promoted_run_that_nobody_takes_is_told_of_once_nobody_can_be_on_the_way():
    late = a_run(1, name="Late", due=NOW - 6 * MINUTE, since=NOW - 6 * MINUTE)

    (found,) = diagnose(an_observation(late))

    assert (found.kind, found.flow_run_ids, found.age) == (Kind.NOT_TAKEN, (late.id,), 6 * MINUTE)
    assert "--limit" in found.next_action
    assert kinds(promoted(1)) == []


def test_nobody_polling_is_told_once_and_not_of_each_run():
    idle = a_limited_deployment(status=DeploymentStatus.NOT_READY, last_polled=NOW - 7 * MINUTE)
    late = a_run(1, name="Late", due=NOW - 6 * MINUTE, since=NOW - 6 * MINUTE)

    (found,) = diagnose(an_observation(late, parked(2), deployment=idle))

    assert (found.kind, found.since) == (Kind.NOBODY_POLLS, NOW - 7 * MINUTE)
    assert kinds(deployment=idle) == []


def a_pool(**fields):
    return WorkPool(**{"name": "pool", "type": "process", "default_queue_id": uuid4(), **fields})


def a_work_queue(**fields):
    return WorkQueue(**{"name": "default", "work_pool_id": uuid4(), **fields})


def test_a_push_pool_needs_no_poller():
    idle = a_limited_deployment(status=DeploymentStatus.NOT_READY)

    assert kinds(promoted(1), deployment=idle, pool=a_pool(type="ecs:push")) == []


def test_a_push_pool_that_does_not_start_a_run_in_its_time_is_told_of():
    idle = a_limited_deployment(status=DeploymentStatus.NOT_READY)

    def late(minutes):
        return a_run(1, name="Late", due=NOW - minutes * MINUTE, since=NOW - minutes * MINUTE)

    assert kinds(late(21), deployment=idle, pool=a_pool(type="ecs:push")) == [Kind.NOT_TAKEN]
    assert kinds(late(19), deployment=idle, pool=a_pool(type="ecs:push")) == []


def test_what_is_paused_is_told_of_only_while_work_waits():
    paused = a_limited_deployment(paused=True)
    around = {"pool": a_pool(is_paused=True), "work_queue": a_work_queue(is_paused=True), "deployment": paused}

    assert kinds(promoted(1), **around) == [Kind.DEPLOYMENT_PAUSED, Kind.POOL_PAUSED, Kind.QUEUE_PAUSED]
    assert kinds(**around) == []


def test_limits_around_the_deployment_are_told_of_only_when_they_are_narrower():
    deployment = a_limited_deployment(limit=3)

    def around(limit):
        return {"pool": a_pool(concurrency_limit=limit), "work_queue": a_work_queue(concurrency_limit=limit)}

    assert kinds(deployment=deployment, **around(2)) == [Kind.POOL_LIMIT, Kind.QUEUE_LIMIT]
    assert kinds(deployment=deployment, **around(3)) == []


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        (a_limited_deployment(strategy="CANCEL_NEW"), Kind.CANCEL_NEW),
        (a_limited_deployment(limit=0), Kind.LIMIT_ZERO),
        (a_limited_deployment(is_active=False), Kind.LIMIT_INACTIVE),
    ],
    ids=["cancel-new", "zero", "inactive"],
)
def test_what_stops_promotion_is_an_error_while_runs_wait(deployment, expected):
    found = diagnose(an_observation(promoted(1), parked(2), deployment=deployment))

    assert [finding.kind for finding in found] == [expected]
    assert expected.severity is Severity.ERROR
    assert kinds(deployment=deployment) == []


def test_a_limit_that_others_share_and_a_tag_on_the_deployment_are_told_of():
    deployment = a_limited_deployment(tags=[PARKED_TAG])
    deployment.global_concurrency_limit.name = "database"

    assert kinds(deployment=deployment) == [Kind.SHARED_LIMIT, Kind.TAGGED_DEPLOYMENT]


def test_a_queue_older_than_half_of_park_delay_is_told_of():
    head = parked(1, created=NOW - PARK_DELAY * 0.6)

    (found,) = diagnose(an_observation(promoted(2), head, parked(3, created=NOW)))

    assert (found.kind, found.flow_run_ids, found.age) == (Kind.OLD_QUEUE, (head.id,), PARK_DELAY * 0.6)
    assert kinds(promoted(2), parked(1, created=NOW - PARK_DELAY * 0.4)) == []


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, Kind.PARENTS_DEADLOCK), (2, Kind.PARENTS_WAIT)], ids=["every slot", "one of two"]
)
def test_parents_that_hold_the_slots_of_their_children_are_told_of(limit, expected):
    parent = running(1, lease=True)
    deployment = a_limited_deployment(limit=limit, active_slots=1)
    other = [promoted(3)] if limit == 2 else []

    (found,) = diagnose(an_observation(parent, *other, parked(2), deployment=deployment, parents=(parent,)))

    assert (found.kind, found.flow_run_ids) == (expected, (parent.id,))


def test_outsiders_and_a_native_backlog_are_told_of_as_information():
    outsider = running(1, tags=(), lease=True)
    backlog = bounced(3, parked_at=0).model_copy(update={"tags": []})
    deployment = a_limited_deployment(active_slots=1)

    found = diagnose(an_observation(outsider, parked(2), deployment=deployment, backlog=(backlog,)))

    assert [(finding.kind, finding.flow_run_ids) for finding in found] == [
        (Kind.OUTSIDERS, (outsider.id,)),
        (Kind.NATIVE_BACKLOG, (backlog.id,)),
    ]
    assert not needs_attention(found)


def test_a_free_slot_beside_a_waiting_run_is_told_of():
    assert kinds(parked(1)) == [Kind.SLOT_UNFILLED]


def test_a_run_without_a_time_zone_is_told_of_and_spoils_nothing_else():
    naive = parked(1)
    naive.state.state_details.scheduled_time = datetime(2026, 4, 1)  # noqa: DTZ001  # naive is what this is about

    (first, second) = diagnose(an_observation(naive, parked(2)))

    assert (first.kind, first.flow_run_ids) == (Kind.ODD_RUN, (naive.id,))
    assert (second.kind, second.flow_run_ids) == (Kind.SLOT_UNFILLED, (UUID(int=2),))


def test_slots_that_cannot_be_counted_are_told_of():
    assert kinds(is_whole=False) == [Kind.TOO_MANY]


@pytest.mark.parametrize(("seconds", "words"), [(-120, "120 s behind"), (120, "120 s ahead of")])
def test_a_clock_that_is_off_is_told_of(seconds, words):
    (found,) = diagnose_all(timedelta(seconds=seconds), (), [])

    assert found.kind is Kind.CLOCK
    assert words in found.what
    assert diagnose_all(timedelta(seconds=seconds / 60), (), []) == ()


def test_orphans_are_told_of_together():
    orphans = [parked(number) for number in range(1, 8)]

    (found,) = diagnose_all(timedelta(0), orphans, [])

    assert found.flow_run_ids == tuple(run.id for run in orphans)
    assert found.what == "7 runs (run-1, run-2, run-3, run-4, run-5, …) wait for a deployment that was deleted"


def test_the_gravest_finding_comes_first_and_of_one_kind_the_oldest():
    def finding(kind, minutes):
        return Finding(kind, "", "", age=minutes * MINUTE)

    found = [
        finding(Kind.OUTSIDERS, 9),
        finding(Kind.NOT_TAKEN, 1),
        finding(Kind.NOT_TAKEN, 8),
        finding(Kind.ZOMBIE, 2),
    ]

    assert by_severity(found) == (found[3], found[2], found[1], found[0])


def test_severities_stand_in_order_in_the_enum():
    severities = [list(Severity).index(kind.severity) for kind in Kind]

    assert severities == sorted(severities)
    assert len({kind.code for kind in Kind}) == len(Kind)


def test_runs_that_no_worker_is_given_are_told_of_once_and_by_no_other_rule():
    deployment = a_limited_deployment(limit=2, work_queue_id=UUID(int=7))
    stranded = [
        promoted(1, work_queue_id=None),
        parked(2, since=NOW - 90 * MINUTE, created=NOW - 20 * 24 * 60 * MINUTE, work_queue_id=None),
    ]

    (found,) = diagnose(an_observation(*stranded, deployment=deployment))

    assert (found.kind, found.age, found.remedy) == (Kind.OUT_OF_REACH, 90 * MINUTE, None)
    assert found.flow_run_ids == tuple(run.id for run in stranded)
    assert found.what == (
        "2 runs (run-1, run-2) belong to no work queue, while the deployment now has one, so no worker is given them; "
        "1 of them stays Late"
    )
    assert needs_attention([found])


def test_a_slot_is_not_taken_by_a_promoted_run_that_no_worker_is_given():
    deployment = a_limited_deployment(limit=1, work_queue_id=UUID(int=7))
    waiting = parked(2, work_queue_id=UUID(int=7))

    assert kinds(promoted(1), waiting, deployment=deployment) == [Kind.OUT_OF_REACH, Kind.SLOT_UNFILLED]


def test_a_count_of_runs_that_no_worker_is_given_is_no_more_than_what_was_read():
    deployment = a_limited_deployment(work_queue_id=UUID(int=7))

    (found,) = diagnose(an_observation(parked(1), deployment=deployment, head_is_whole=False))

    assert found.what.startswith("at least 1 run (run-1) ")

"""What is wrong with the runs of one queue, and with the server's counter of their slots.

Counter and states are compared only if the counter did not move while the runs were read. Too high, it has leaked:
what can be taken off is what no lease can give back any more, so the counter must have been untouched for longer
than a lease lasts. Too low, it tells of zombies (``counting``).

Leases without a run cannot be looked for: the API has no list of leases (Prefect 3.9.1), it only renews one whose id is
known. They show as a counter that is too high.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from uuid import UUID

from prefect.client.schemas.objects import DeploymentStatus, FlowRun, StateType

from ordered_queue import counting, promotion
from ordered_queue.findings import EndZombie, Finding, Kind, LowerCounter
from ordered_queue.observation import Observation, aged
from ordered_queue.ordering import PARK_DELAY, PARKED_TAG, scheduled_time
from ordered_queue.runs import Standing

NOT_TAKEN_AFTER = timedelta(minutes=5)
PUSHED_AFTER = timedelta(minutes=20)
PENDING_AFTER = timedelta(minutes=20)
"""Push pools take 5 to 15 minutes to start a run."""
CANCELLING_AFTER = timedelta(minutes=10)
RUNNING_AFTER = timedelta(days=1)
END_ZOMBIES_AFTER = timedelta(minutes=10)
"""How long beyond its lease a zombie must be in its state before `--fix` touches it."""
QUIET_AFTER_LEASE = timedelta(minutes=5)
"""How long beyond a lease the counter must have been untouched before `--fix` lowers it: the server looks for lapsed
leases now and then only, and gives their slots back itself."""
MOST_NAMED = 5


def runs_findings(seen: Observation) -> Generator[Finding, None, None]:
    """What is to be said of the runs and of the counter."""
    zombies = _zombies(seen)
    yield from _counter_findings(seen, zombies)
    yield from _zombie_findings(seen, zombies)
    yield from _overlap_findings(seen)
    yield from _long_findings(seen, zombies)
    yield from _taken_findings(seen)
    yield from _order_findings(seen)
    yield from _parent_findings(seen)
    yield from _outside_findings(seen)


def _zombies(seen: Observation) -> dict[UUID, timedelta]:
    if not seen.is_whole:
        return {}
    return counting.zombies_to_tell_of(seen.known, seen.now, seen.counter_before, seen.deployment)


def _counter_findings(seen: Observation, zombies: dict[UUID, timedelta]) -> Generator[Finding, None, None]:
    limit, counter = seen.deployment.global_concurrency_limit, counting.counter_of(seen.deployment)
    if not seen.is_whole:
        yield seen.finding(
            Kind.TOO_MANY, "it has more due and active runs than were read", "cancel what is not wanted, start the rest"
        )
        return
    if limit is None or counter is None or not seen.has_steady_counter or not seen.has_own_limit:
        return
    slots, changed = counter
    excess = slots - len(seen.active)
    claims = sum(_lease_of(run) is not None for run in seen.active)
    if excess > 0:
        is_quiet = changed is not None and seen.now - changed > seen.lease_duration + QUIET_AFTER_LEASE
        remedy = LowerCounter(limit.name, excess) if is_quiet and limit.active else None
        wait = _minutes(seen.lease_duration + QUIET_AFTER_LEASE)
        yield aged(
            seen,
            Kind.COUNTER_TOO_HIGH,
            f"active_slots is {slots}, while {len(seen.active)} of its runs hold a slot",
            "run `ordered-queue doctor --fix`"
            if remedy
            else f"look again: the server gives slots of lapsed leases back itself. It can be fixed once no slot was "
            f"taken or given back for {wait}",
            changed,
            remedy=remedy,
        )
    elif claims - slots > len(zombies):
        yield seen.finding(
            Kind.COUNTER_TOO_LOW,
            f"active_slots is {slots}, while {claims} of its runs hold a lease by their state",
            "look again in some minutes: a zombie among them is named once its lease must have lapsed",
        )


def _zombie_findings(seen: Observation, zombies: dict[UUID, timedelta]) -> Generator[Finding, None, None]:
    limit = seen.deployment.global_concurrency_limit
    for run in seen.active:
        lease_id = _lease_of(run)
        if run.id not in zombies or run.state is None or lease_id is None or limit is None:
            continue
        is_old = zombies[run.id] > seen.lease_duration + END_ZOMBIES_AFTER
        end = "CANCELLED" if run.state.type == StateType.CANCELLING else "CRASHED"
        remedy = EndZombie(run.id, run.state.id, lease_id, limit.name, end) if is_old and limit.active else None
        yield aged(
            seen,
            Kind.ZOMBIE,
            f"flow run {run.name} is {run.state.name}, but the server counts fewer slots than there are such runs: the "
            "lease of this one, the oldest, has most likely lapsed with its process",
            "see that its process is gone, then `ordered-queue doctor --fix`"
            if remedy
            else f"see whether its process is gone; --fix ends it {_minutes(END_ZOMBIES_AFTER)} after its lease",
            counting.state_since(run),
            [run],
            remedy,
        )


def _lease_of(run: FlowRun) -> UUID | None:
    return None if run.state is None else run.state.state_details.deployment_concurrency_lease_id


def _overlap_findings(seen: Observation) -> Generator[Finding, None, None]:
    """More runs at work than the limit allows: the limit was lowered, or a run came back without asking for a slot.

    Source: Prefect accepts Crashed -> Running and resumes a pause without taking a slot.
    """
    limit = promotion.limit_of(seen.deployment)
    if not limit or not seen.is_whole or len(seen.active) <= limit:
        return
    newest_first = sorted(seen.active, key=lambda run: counting.state_since(run) or seen.now, reverse=True)
    yield aged(
        seen,
        Kind.OVER_LIMIT,
        f"{some(newest_first)} hold a slot, the limit is {limit}",
        "if the limit was not lowered, look at their earlier states: one had ended or was paused and came back; end "
        "its process if so many at once do harm",
        counting.state_since(newest_first[0]),
        newest_first,
    )


def _long_findings(seen: Observation, zombies: dict[UUID, timedelta]) -> Generator[Finding, None, None]:
    """Runs that hold a slot for long."""
    rules = {
        StateType.PENDING: (Kind.LONG_PENDING, PENDING_AFTER, "look at its worker and its infrastructure; cancel it"),
        StateType.CANCELLING: (
            Kind.LONG_CANCELLING,
            CANCELLING_AFTER,
            "see whether its runner or worker is alive, and end what is left of its process; a run whose process is "
            "gone may be set to Cancelled",
        ),
        StateType.RUNNING: (Kind.LONG_RUNNING, RUNNING_AFTER, "see whether it still works"),
    }
    for run in seen.active:
        since = counting.state_since(run)
        if run.id in zombies or run.state is None or since is None or run.state.type not in rules:
            continue
        kind, most, action = rules[run.state.type]
        if seen.now - since > most:
            yield aged(seen, kind, f"flow run {run.name} is {run.state.name}", action, since, [run])


def _taken_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Runs that are due and that nobody takes; where nobody polls at all, that is told once, not of each."""
    if seen.deployment.status != DeploymentStatus.READY and not seen.needs_no_poller:
        return
    late = counting.not_taken(seen.due, seen.now, PUSHED_AFTER if seen.needs_no_poller else NOT_TAKEN_AFTER)
    for run in seen.due:
        if run.id in late:
            yield aged(
                seen,
                Kind.NOT_TAKEN,
                f"flow run {run.name} is due and was not taken",
                "look for a full work pool or queue, for a worker's `--limit` or a runner's `limit` "
                "(not in the API: it must be above the deployment's limit, and one that leaked needs a restart), and "
                "for a poller of another work queue",
                seen.now - late[run.id],
                [run],
            )


def _order_findings(seen: Observation) -> Generator[Finding, None, None]:
    """What waits, and how long it may."""
    for run in seen.odd:
        yield seen.finding(
            Kind.ODD_RUN,
            f"flow run {run.name} has a time without a time zone",
            "cancel it and submit it anew",
            [run],
        )
    if not seen.waiting:
        return
    head = seen.waiting[0]
    due = scheduled_time(head)
    if head.created is not None and due is not None and seen.now - head.created > PARK_DELAY / 2:
        yield aged(
            seen,
            Kind.OLD_QUEUE,
            f"the first of those that wait, {head.name}, was submitted longer ago than half of PARK_DELAY; it "
            f"starts by itself at {due.isoformat(timespec='minutes')}",
            "raise the limit, cancel what is not wanted, or let the queue drain before then",
            head.created,
            [head],
        )
    decision = promotion.decide(seen.known, promotion.limit_of(seen.deployment), seen.now)
    if seen.is_whole and decision.promote:
        yield seen.finding(
            Kind.SLOT_UNFILLED,
            f"{decision.occupied} of its slots are occupied, and runs wait",
            "`ordered-queue sweep`; then see what has become of the watcher, the refresh and the hooks: does the flow "
            "have `@queued` above `@flow`?",
            decision.promote[:1],
        )


def _parent_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Runs that wait, in a slot, for runs of the same deployment that wait for a slot."""
    if not seen.parents:
        return
    limit = promotion.limit_of(seen.deployment)
    is_stuck = limit is not None and len(seen.parents) >= limit
    yield seen.finding(
        Kind.PARENTS_DEADLOCK if is_stuck else Kind.PARENTS_WAIT,
        f"{some(seen.parents)} of this deployment hold a slot while runs that they started wait for one",
        "cancel a parent, or raise the limit; start such children on a deployment of their own",
        seen.parents,
    )


def _outside_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Runs that take slots without having queued."""
    outsiders = [*seen.of(Standing.OUTSIDER), *(run for run in seen.active if PARKED_TAG not in run.tags)]
    if outsiders and seen.waiting:
        yield seen.finding(
            Kind.OUTSIDERS,
            f"{some(outsiders)} did not come through the queue",
            "nothing; to have them queue, submit them with `ordered-queue park`",
            outsiders,
        )
    if seen.backlog:
        yield seen.finding(
            Kind.NATIVE_BACKLOG,
            f"{some(seen.backlog)} without the queue's tag wait for a slot in Prefect's own way",
            "`ordered-queue adopt` takes them into the queue",
            seen.backlog,
        )


def some(runs: Sequence[FlowRun]) -> str:
    """How many runs, and the names of the first few."""
    names = ", ".join(run.name for run in runs[:MOST_NAMED])
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'} ({names}{', …' if len(runs) > MOST_NAMED else ''})"


def _minutes(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 60:.0f} min"

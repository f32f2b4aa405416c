"""What is wrong with the slots of one queue: the server's counter of them, and the runs that hold one by their state.

Counter and states are compared only if the counter did not move while the runs were read. Too high, it has leaked:
what can be taken off is what no lease can give back any more, so the counter must have been untouched for longer
than a lease lasts. Too low, it tells of zombies (``counting``).

Leases without a run cannot be looked for: the API has no list of leases (Prefect 3.9.1), it only renews one whose id is
known. They show as a counter that is too high.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType

from ordered_queue import counting, promotion
from ordered_queue._doctor.findings import EndZombie, Finding, Kind, LowerCounter
from ordered_queue._doctor.observation import Observation, aged, minutes, some

END_ZOMBIES_AFTER = timedelta(minutes=10)
"""How long beyond its lease a zombie must be in its state before `--fix` touches it."""
QUIET_AFTER_LEASE = timedelta(minutes=5)
"""How long beyond a lease the counter must have been untouched before `--fix` lowers it: the server looks for lapsed
leases now and then only, and gives their slots back itself."""


def slots_findings(seen: Observation) -> Generator[Finding, None, None]:
    """What is to be said of the counter and of the slots."""
    yield from _counter_findings(seen)
    yield from _zombie_findings(seen)
    yield from _overlap_findings(seen)


def _counter_findings(seen: Observation) -> Generator[Finding, None, None]:
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
        wait = minutes(seen.lease_duration + QUIET_AFTER_LEASE)
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
    elif claims - slots > len(seen.zombies):
        yield seen.finding(
            Kind.COUNTER_TOO_LOW,
            f"active_slots is {slots}, while {claims} of its runs hold a lease by their state",
            "look again in some minutes: a zombie among them is named once its lease must have lapsed",
        )


def _zombie_findings(seen: Observation) -> Generator[Finding, None, None]:
    limit = seen.deployment.global_concurrency_limit
    for run in seen.active:
        lease_id = _lease_of(run)
        if run.id not in seen.zombies or run.state is None or lease_id is None or limit is None:
            continue
        is_old = seen.zombies[run.id] > seen.lease_duration + END_ZOMBIES_AFTER
        end = "CANCELLED" if run.state.type == StateType.CANCELLING else "CRASHED"
        remedy = EndZombie(run.id, run.state.id, lease_id, limit.name, end) if is_old and limit.active else None
        yield aged(
            seen,
            Kind.ZOMBIE,
            f"flow run {run.name} is {run.state.name}, but the server counts fewer slots than there are such runs: the "
            "lease of this one, the oldest, has most likely lapsed with its process",
            "see that its process is gone, then `ordered-queue doctor --fix`"
            if remedy
            else f"see whether its process is gone; --fix ends it {minutes(END_ZOMBIES_AFTER)} after its lease",
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

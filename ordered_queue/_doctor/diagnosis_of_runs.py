"""What is wrong with the runs of one queue; what concerns their slots is in `diagnosis_of_slots`.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta

from prefect.client.schemas.objects import DeploymentStatus, StateType

from ordered_queue import counting, promotion
from ordered_queue._doctor.findings import Finding, Kind
from ordered_queue._doctor.observation import Observation, aged, some
from ordered_queue.ordering import PARK_DELAY, PARKED_TAG, scheduled_time
from ordered_queue.runs import Standing

NOT_TAKEN_AFTER = timedelta(minutes=5)
PUSHED_AFTER = timedelta(minutes=20)
PENDING_AFTER = timedelta(minutes=20)
"""Push pools take 5 to 15 minutes to start a run."""
CANCELLING_AFTER = timedelta(minutes=10)
RUNNING_AFTER = timedelta(days=1)


def runs_findings(seen: Observation) -> Generator[Finding, None, None]:
    """What is to be said of the runs."""
    yield from _long_findings(seen)
    yield from _taken_findings(seen)
    yield from _order_findings(seen)
    yield from _parent_findings(seen)
    yield from _outside_findings(seen)


def _long_findings(seen: Observation) -> Generator[Finding, None, None]:
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
        if run.id in seen.zombies or run.state is None or since is None or run.state.type not in rules:
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

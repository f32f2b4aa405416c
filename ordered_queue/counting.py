"""Which occupying runs stop counting against the limit, so that a queue does not stand still behind them for ever.

Two kinds, and only these:

- *not taken*: a run that was promoted (or that an outsider started) and that nobody has picked up for
  `promoted_timeout`: one Late run on a work queue that nobody polls must not hold a slot for ever. As many as the limit
  at most, and only while somebody polls for the deployment: into a paused pool twice the limit is promoted and no more,
  and where nobody polls at all, the limit;
- *zombies*: runs that hold a lease by their state while the server's counter has fewer slots taken than there are
  such runs. A dead worker's lease lapses after `LEASE_DURATION`; the server then frees the slot and goes on, but
  leaves the run Running or Pending for ever. As many as the counter is short, the oldest first, stop counting.

A run without a lease in its state started before the limit was set; it counts. The counter is believed only where it
is too low: after crashes and restarts it leaks upwards.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue.ordering import aware, scheduled_time, standing
from ordered_queue.runs import Standing

LEASE_DURATION = timedelta(seconds=300)
"""Source: ``PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION``, 300 s by default."""


def state_since(run: FlowRun) -> datetime | None:
    """Since when the run is in its state, in UTC."""
    if run.state is None:
        return None
    return aware(run.state.timestamp, f"the state timestamp of flow run {run.id}")


def not_taken(runs: Iterable[FlowRun], now: datetime, promoted_timeout: timedelta) -> dict[UUID, timedelta]:
    """Due runs that no poller has taken for longer than `promoted_timeout`, and for how long; the oldest first."""
    ages: dict[UUID, timedelta] = {}
    for run in runs:
        if standing(run, now) not in (Standing.PROMOTED, Standing.OUTSIDER):
            continue
        times = [time for time in (state_since(run), scheduled_time(run)) if time is not None]
        # The later of the two: a run may be parked long before it is due, and promoted long after it was created.
        ages[run.id] = now - max(times, default=now)
    oldest_first = sorted(ages, key=lambda run_id: (-ages[run_id], run_id.int))
    return {run_id: ages[run_id] for run_id in oldest_first if ages[run_id] > promoted_timeout}


def zombies(
    runs: Iterable[FlowRun], now: datetime, active_slots: int, exclude_flow_run_id: UUID | None = None
) -> dict[UUID, timedelta]:
    """Runs whose lease has lapsed while their state still claims one, and how old that state is.

    Args:
        runs: all occupying runs of the deployment.
        now: the server's time.
        active_slots: the server's counter, read *after* the runs. Read before them, a run that went
            Pending in between would make an older, living one look like a zombie. Read after them, a run that ended
            in between does so too, but that one is then counted in its stead: the sum is right.
        exclude_flow_run_id: the run handing its slot over: alive, whatever its age.
    """
    holders: dict[UUID, datetime] = {}
    for run in runs:
        if run.state is None or not standing(run, now).is_occupying:
            continue
        if run.state.state_details.deployment_concurrency_lease_id is None:
            continue
        if run.id == exclude_flow_run_id:
            active_slots -= 1
            continue
        holders[run.id] = aware(run.state.timestamp, f"the state timestamp of flow run {run.id}")
    excess = len(holders) - max(0, active_slots)
    oldest_first = sorted(holders, key=lambda run_id: (holders[run_id], run_id.int))
    return {
        run_id: now - holders[run_id]
        for run_id in oldest_first[: max(0, excess)]
        if now - holders[run_id] > LEASE_DURATION
    }


def zombies_to_tell_of(
    runs: Iterable[FlowRun],
    now: datetime,
    counter_before: tuple[int, datetime | None] | None,
    deployment: DeploymentResponse,
) -> dict[UUID, timedelta]:
    """The zombies that an operator is told of, and how old their states are.

    A fill, which must not stand still, goes by `zombies` alone. Here no slot may have been taken or given back while
    the runs were read, and a lease of the deployment's own that is longer must have lapsed too.

    Args:
        runs: all occupying runs of the deployment.
        now: the server's time.
        counter_before: `counter_of` the deployment as it was before they were read.
        deployment: as it was after.
    """
    limit = deployment.global_concurrency_limit
    if limit is None or counter_before is None or counter_before != counter_of(deployment):
        return {}
    found = zombies(runs, now, limit.active_slots)
    return {run_id: age for run_id, age in found.items() if age > lease_duration_of(deployment)}


def lease_duration_of(deployment: DeploymentResponse) -> timedelta:
    """How long a lease of the deployment's runs lasts that nobody renews."""
    options = deployment.concurrency_options
    seconds = None if options is None else options.grace_period_seconds
    return max(LEASE_DURATION, timedelta(seconds=seconds or 0))


def counter_of(deployment: DeploymentResponse) -> tuple[int, datetime | None] | None:
    """The server's counter and when it, or anything of its limit, was changed last; None without a limit."""
    limit = deployment.global_concurrency_limit
    if limit is None:
        return None
    return limit.active_slots, None if limit.updated is None else aware(limit.updated, "the limit's last change")

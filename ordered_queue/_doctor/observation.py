"""What was read of one queue for a doctor, and what can be said of it without judging.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, Worker, WorkPool, WorkQueue
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import counting, promotion
from ordered_queue._doctor.findings import Finding, Kind, Remedy
from ordered_queue.ordering import aware, is_out_of_reach, order_key, standing
from ordered_queue.runs import Standing

MOST_NAMED = 5


@dataclass(frozen=True)
class Observation:
    """What was read of one queue.

    Attributes:
        deployment: as the server had it after the runs were read.
        counter_before: its concurrency limit as it was before they were; see `has_steady_counter`.
        now: the server's time.
        runs: what waits (its head), is due, or is active; one may be there twice if it moved on between two reads.
        is_whole: whether every occupying run is among them.
        head_is_whole: whether every waiting run is among them.
        backlog: untagged runs that Prefect bounced: the beginning of a native backlog.
        parents: those that hold a slot of this deployment while a child of theirs waits for one, queued or bounced.
        pool: the deployment's work pool, if it has one.
        work_queue: the deployment's work queue, if it has one.
        workers: the pool's.
    """

    deployment: DeploymentResponse
    counter_before: tuple[int, datetime | None] | None
    now: datetime
    runs: tuple[FlowRun, ...]
    is_whole: bool = True
    head_is_whole: bool = True
    backlog: tuple[FlowRun, ...] = ()
    parents: tuple[FlowRun, ...] = ()
    pool: WorkPool | None = None
    work_queue: WorkQueue | None = None
    workers: tuple[Worker, ...] = ()

    @cached_property
    def odd(self) -> tuple[FlowRun, ...]:
        """Runs whose standing cannot be told."""
        return tuple(run for run in {run.id: run for run in self.runs}.values() if _standing(run, self.now) is None)

    @cached_property
    def out_of_reach(self) -> tuple[FlowRun, ...]:
        """Runs that no poller is ever given: a fill passes them over, and so does every rule but the one for them."""
        latest = {run.id: run for run in self.runs}.values()
        return tuple(run for run in latest if is_out_of_reach(run, self.deployment.work_queue_id))

    @cached_property
    def known(self) -> tuple[FlowRun, ...]:
        """The other runs, each once, the later read of two."""
        left_out = {run.id for run in (*self.odd, *self.out_of_reach)}
        return tuple(run for run in {run.id: run for run in self.runs}.values() if run.id not in left_out)

    def of(self, *standings: Standing) -> tuple[FlowRun, ...]:
        """The runs of these standings."""
        return tuple(run for run in self.known if _standing(run, self.now) in standings)

    @cached_property
    def waiting(self) -> tuple[FlowRun, ...]:
        """The head of the queue, in order."""
        decision = promotion.decide(self.known, promotion.limit_of(self.deployment), self.now)
        return tuple(verdict.run for verdict in decision.verdicts if verdict.standing is Standing.WAITING)

    @cached_property
    def due(self) -> tuple[FlowRun, ...]:
        """What a poller should take now."""
        return self.of(Standing.PROMOTED, Standing.OUTSIDER)

    @cached_property
    def active(self) -> tuple[FlowRun, ...]:
        """What holds a slot by its state."""
        return self.of(Standing.ACTIVE, Standing.RETRYING)

    @cached_property
    def zombies(self) -> dict[UUID, timedelta]:
        """Active runs whose lease has lapsed, and how old their states are; none where not all could be counted."""
        if not self.is_whole:
            return {}
        return counting.zombies_to_tell_of(self.known, self.now, self.counter_before, self.deployment)

    @property
    def has_own_limit(self) -> bool:
        """Whether no other deployment takes slots of its limit."""
        limit = self.deployment.global_concurrency_limit
        return limit is not None and limit.name == f"deployment:{self.deployment.id}"

    @property
    def needs_no_poller(self) -> bool:
        """Whether Prefect itself starts the runs: a push or managed pool has no poller to be seen."""
        return self.pool is not None and (self.pool.is_push_pool or self.pool.is_managed_pool)

    @property
    def has_steady_counter(self) -> bool:
        """Whether no slot was taken or given back while the runs were read."""
        return self.counter_before is not None and self.counter_before == counting.counter_of(self.deployment)

    @property
    def lease_duration(self) -> timedelta:
        """How long a lease lasts that nobody renews."""
        return counting.lease_duration_of(self.deployment)

    def finding(self, kind: Kind, what: str, next_action: str, runs: Iterable[FlowRun] = ()) -> Finding:
        """A finding about this queue."""
        return Finding(kind, what, next_action, self.deployment.id, tuple(run.id for run in runs))


def aged(
    seen: Observation,
    kind: Kind,
    what: str,
    next_action: str,
    since: datetime | None,
    runs: Iterable[FlowRun] = (),
    remedy: Remedy | None = None,
) -> Finding:
    """A finding about this queue that has lasted since some moment."""
    since = None if since is None else aware(since, "since")
    age = None if since is None else seen.now - since
    ids = tuple(run.id for run in runs)
    return Finding(kind, what, next_action, seen.deployment.id, ids, since, age, remedy)


def _standing(run: FlowRun, now: datetime) -> Standing | None:
    try:
        order_key(run)  # A run that waits must be put in order as well.
        return standing(run, now)
    except ValueError:
        return None


def some(runs: Sequence[FlowRun]) -> str:
    """How many runs, and the names of the first few."""
    names = ", ".join(run.name for run in runs[:MOST_NAMED])
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'} ({names}{', …' if len(runs) > MOST_NAMED else ''})"


def minutes(duration: timedelta) -> str:
    """A duration as a finding tells it."""
    return f"{duration.total_seconds() / 60:.0f} min"

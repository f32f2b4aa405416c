"""What a doctor may find in a queue, as plain data: kinds with their severity and effect, and the remedies.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID


class Severity(Enum):
    """How much a finding matters. Exit codes stand on it: errors and warnings are findings, an info is not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Kind(Enum):
    """What was found: its code name, how much it matters, and what it does to the queue. The gravest come first."""

    CANCEL_NEW = ("cancel-new", Severity.ERROR, "nothing is promoted: a promoted run without a slot would be cancelled")
    LIMIT_ZERO = ("limit-zero", Severity.ERROR, "nothing is promoted")
    LIMIT_INACTIVE = ("limit-inactive", Severity.ERROR, "the server gives no slots, so nothing is promoted")
    PARENTS_DEADLOCK = ("parents-deadlock", Severity.ERROR, "every slot waits for a run that waits for a slot")
    COUNTER_TOO_HIGH = (
        "counter-too-high",
        Severity.ERROR,
        "the server gives out fewer slots than the limit has; promoted runs bounce for 30 s at a time",
    )
    ZOMBIE = ("zombie", Severity.ERROR, "its slot is free on the server and it no longer counts as occupying")
    NOBODY_POLLS = ("nobody-polls", Severity.ERROR, "promoted runs are not started")
    ORPHANS = ("orphans", Severity.WARNING, "they never start: nobody polls for a deployment that is gone")
    OUT_OF_REACH = (
        "out-of-reach",
        Severity.WARNING,
        "they never start, promoted or not; the queue passes over some 800 of them and stands still behind more",
    )
    ODD_RUN = ("odd-run", Severity.WARNING, "a queue that holds it cannot be put in order, so it may stand still")
    NOT_TAKEN = ("not-taken", Severity.WARNING, "it counts as occupying a slot until promoted_timeout has passed")
    LONG_PENDING = ("long-pending", Severity.WARNING, "it holds a slot and does not run")
    LONG_CANCELLING = ("long-cancelling", Severity.WARNING, "it holds a slot until it is Cancelled")
    OVER_LIMIT = ("over-limit", Severity.WARNING, "nothing is promoted until fewer of them hold a slot")
    PARENTS_WAIT = ("parents-wait", Severity.WARNING, "its slot is held until its children have run in the others")
    OLD_QUEUE = (
        "old-queue",
        Severity.WARNING,
        "a run that reaches its parked time starts by itself, out of order",
    )
    DEPLOYMENT_PAUSED = ("deployment-paused", Severity.WARNING, "its schedules stand still; promotion goes on")
    POOL_PAUSED = ("pool-paused", Severity.WARNING, "as many runs as the limit are promoted and wait there")
    QUEUE_PAUSED = ("work-queue-paused", Severity.WARNING, "as many runs as the limit are promoted and wait there")
    POOL_LIMIT = ("pool-limit", Severity.WARNING, "promoted runs wait for the work pool, Late, beside free slots")
    QUEUE_LIMIT = (
        "work-queue-limit",
        Severity.WARNING,
        "promoted runs wait for the work queue, Late, beside free slots",
    )
    SLOT_UNFILLED = ("slot-unfilled", Severity.WARNING, "a slot is idle until the next fill")
    SHARED_LIMIT = (
        "shared-limit",
        Severity.WARNING,
        "runs of other deployments take its slots uncounted, so a promoted run may bounce for 30 s",
    )
    TAGGED_DEPLOYMENT = ("tagged-deployment", Severity.WARNING, "every run of it counts as a member of the queue")
    CLOCK = ("clock-difference", Severity.WARNING, "the queue goes by the server's clock; logs and other tools may not")
    TOO_MANY = ("too-many-runs", Severity.WARNING, "a limited queue is not filled while its slots cannot be counted")
    COUNTER_TOO_LOW = ("counter-too-low", Severity.INFO, "the server may give out more slots than the limit has")
    OUTSIDERS = ("outsiders", Severity.INFO, "they hold slots, or are about to, without having queued")
    NATIVE_BACKLOG = ("native-backlog", Severity.INFO, "they take slots beside the queue, in no order")
    LONG_RUNNING = ("long-running", Severity.INFO, "it holds a slot")
    NO_LIMIT = ("no-limit", Severity.INFO, "every parked run is promoted at once, so nothing waits")

    def __init__(self, code: str, severity: Severity, effect: str) -> None:
        self.code = code
        self.severity = severity
        self.effect = effect


@dataclass(frozen=True)
class LowerCounter:
    """Take slots that nobody holds off the server's counter.

    Attributes:
        limit_name: of the concurrency limit.
        slots: how many.
    """

    limit_name: str
    slots: int

    def __str__(self) -> str:
        return f"take {self.slots} off active_slots of the limit {self.limit_name!r}"


@dataclass(frozen=True)
class EndZombie:
    """Propose the final state of a run whose lease is gone, through orchestration, never forced.

    Attributes:
        flow_run_id: the run.
        state_id: the state it was seen in; in another one it is left alone.
        lease_id: its lease, of which the server is asked first: a run whose lease lives is left alone.
        limit_name: the concurrency limit that the state claims a slot of.
        state_type: CRASHED, or CANCELLED for a run that is Cancelling: Prefect accepts nothing else from there.
    """

    flow_run_id: UUID
    state_id: UUID
    lease_id: UUID
    limit_name: str
    state_type: str

    def __str__(self) -> str:
        return f"propose {self.state_type.capitalize()} for flow run {self.flow_run_id} if its lease is gone"


Remedy = LowerCounter | EndZombie


@dataclass(frozen=True)
class Finding:
    """One thing that an operator should know of a queue.

    Attributes:
        kind: what it is, how much it matters and what it does to the queue.
        what: the thing itself, with names and figures.
        next_action: what a human should do about it.
        deployment_id: whose queue; None for what concerns all.
        flow_run_ids: the runs that it is about, if any.
        since: since when, where that is known.
        age: for how long, as of the look.
        remedy: what `--fix` would do; None if a human has to.
    """

    kind: Kind
    what: str
    next_action: str
    deployment_id: UUID | None = None
    flow_run_ids: tuple[UUID, ...] = ()
    since: datetime | None = None
    age: timedelta | None = None
    remedy: Remedy | None = None


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest first; of one kind, the oldest first."""
    kinds = list(Kind)

    def key(finding: Finding) -> tuple[int, str, timedelta, tuple[UUID, ...]]:
        age = -(finding.age or timedelta(0))
        return kinds.index(finding.kind), str(finding.deployment_id or ""), age, finding.flow_run_ids

    return tuple(sorted(findings, key=key))


def needs_attention(findings: Iterable[Finding]) -> bool:
    """Whether a cron job should wake somebody."""
    return any(finding.kind.severity is not Severity.INFO for finding in findings)

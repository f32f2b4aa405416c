"""Frozen plain data: what is asked for, what a queue is at one moment, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse


@dataclass(frozen=True)
class RunRequest:
    """One run to park, where a plain mapping of parameters is not enough.

    Attributes:
        parameters: parameters of the flow; what is left out is taken from the deployment.
        name: the run's name; Prefect makes one up if it is None.
        tags: tags beside the deployment's own and ``PARKED_TAG``.
        idempotency_key: a key of the caller's own. Prefect keeps these unique per *flow*. None lets the queue
            make one from the deployment, the submission key and the position.
        job_variables: overrides for the run's infrastructure.
        context: context of the run.
        labels: labels beside the queue's own.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    job_variables: Mapping[str, Any] | None = None
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    labels: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, "str | int | float | bool"])


@dataclass(frozen=True)
class ParkedRun:
    """A run that the server was seen to hold.

    Attributes:
        flow_run_id: the run's id.
        position: its 0-based place in its submission.
        parked_time: when it would start by itself, were it never promoted (UTC).
        name: the run's name.
        submission_key: repeating the submission with this key adds nothing twice.
        already_there: the key was known to the server before, so this call created nothing.
    """

    flow_run_id: UUID
    position: int
    parked_time: datetime
    name: str
    submission_key: str
    already_there: bool = False


class Standing(Enum):
    """What a run is to its queue, at one moment."""

    WAITING = "waiting"
    PROMOTED = "promoted"
    ACTIVE = "active"
    """Running, Pending or Cancelling."""
    RETRYING = "retrying"
    """Waits inside its process for a retry, and keeps its slot."""
    OUTSIDER = "outsider"
    """Untagged, due: about to take a slot without having queued."""
    OUT_OF_REACH = "out of reach"
    """Scheduled, and no poller is ever given it (``ordering.is_out_of_reach``): neither waits nor occupies."""
    ZOMBIE = "zombie"
    """Active by its state, but the lease of its slot has lapsed (``counting``): it no longer occupies."""
    NONE = "none"
    """Finished, paused, or scheduled for later by somebody else: neither waits nor occupies."""

    @property
    def is_occupying(self) -> bool:
        """Whether a run of this standing counts against the limit."""
        return self in (Standing.PROMOTED, Standing.ACTIVE, Standing.RETRYING, Standing.OUTSIDER)


class Reason(Enum):
    """Why the decision about a run is what it is."""

    SLOT_FREE = "a slot is free for it"
    NO_SLOT_FREE = "every slot is occupied or promised to an earlier run"
    OCCUPYING = "it occupies a slot"
    HANDING_OVER = "it hands its slot over"
    NOT_QUEUED = "it neither waits nor occupies a slot"
    LAPSED = "the lease of its slot has most likely lapsed with its process"
    OUT_OF_REACH = "no worker is ever given it, for it belongs to no work queue"


@dataclass(frozen=True)
class Verdict:
    """What was decided about one run, and why.

    Attributes:
        run: the run.
        standing: what it is to the queue.
        reason: why it is promoted or not.
        position: 0-based place among the waiting runs; None if it does not wait.
    """

    run: FlowRun
    standing: Standing
    reason: Reason
    position: int | None = None


@dataclass(frozen=True)
class Decision:
    """What was decided about every run that was looked at: occupying ones first, then the waiting, in order.

    Attributes:
        limit: the limit that was applied; None is unlimited.
        occupied: how many slots were counted as occupied.
        verdicts: one for each distinct run.
    """

    limit: int | None
    occupied: int
    verdicts: tuple[Verdict, ...]

    @property
    def promote(self) -> list[FlowRun]:
        """The runs to move to now, earliest first."""
        return [verdict.run for verdict in self.verdicts if verdict.reason is Reason.SLOT_FREE]


@dataclass(frozen=True)
class QueueSnapshot:
    """What was read of one queue.

    Attributes:
        deployment: the deployment as the server has it.
        now: the server's time when it was read.
        runs: the runs that wait or may occupy a slot; one may be there twice if it moved on between two reads.
        head_is_whole: whether every waiting run is among them.
        occupied_is_whole: whether every occupying run is among them.
        out_of_reach: how many scheduled runs were left out because no poller is ever given them.
    """

    deployment: DeploymentResponse
    now: datetime
    runs: tuple[FlowRun, ...]
    head_is_whole: bool = True
    occupied_is_whole: bool = True
    out_of_reach: int = 0


@dataclass(frozen=True)
class QueueSwept:
    """What a sweep did to one queue.

    Attributes:
        deployment_id: whose queue it is; None if the list of queues could not be read.
        promoted: how many runs were promoted.
        problem: what kept the fill from finishing, if anything did.
        notes: what an operator should know of the queue.
    """

    deployment_id: UUID | None
    promoted: int
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueueListing:
    """A queue as an operator looks at it.

    Attributes:
        deployment: the deployment as the server has it.
        now: the server's time when it was read.
        decision: every run that was read, occupying ones first, then the waiting in order, with a verdict each.
        is_whole: False if more waits than was asked for.
    """

    deployment: DeploymentResponse
    now: datetime
    decision: Decision
    is_whole: bool

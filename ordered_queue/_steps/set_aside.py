"""Leave out of a snapshot the runs that stop counting (see ``counting``), and tell of each."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from uuid import UUID

from prefect.client.schemas.objects import DeploymentStatus, FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls, counting
from ordered_queue._steps.effects import Patience, Steps, read_deployment
from ordered_queue.runs import QueueSnapshot


def without_set_aside(
    snapshot: QueueSnapshot,
    limit: int | None,
    exclude_flow_run_id: UUID | None,
    promoted_timeout: timedelta,
    patience: Patience,
    told: list[str],
) -> Steps[list[FlowRun]]:
    """The runs of the snapshot without those that stop counting (see ``counting``), each of which is noted."""
    untaken = counting.not_taken(snapshot.runs, snapshot.now, promoted_timeout)
    is_polled = snapshot.deployment.status == DeploymentStatus.READY
    aside = dict(islice(untaken.items(), (limit or 0) if is_polled else 0))
    notes: list[str] = []
    if untaken:
        oldest, age = next(iter(untaken.items()))
        counting_on = f"{len(aside)} of them no longer count" if aside else "they still count"
        notes.append(
            f"{len(untaken)} run(s) are due and have not been taken for too long, flow run {oldest} for "
            f"{_minutes(age)}: is anybody polling the work queue? As occupying a slot {counting_on}"
        )
    if limit is not None and _zombies(snapshot, snapshot.deployment, exclude_flow_run_id):
        # The counter was read before the runs; only one read after them can tell a zombie from a run just started.
        deployment, _ = yield from read_deployment(_calls.read_deployment(snapshot.deployment.id), patience)
        found = _zombies(snapshot, deployment, exclude_flow_run_id)
        aside |= found
        notes += [
            f"flow run {run_id} has been in its state for {_minutes(age)} and its slot's lease "
            "has lapsed, going by the server's counter: its process is most likely gone. It no longer counts as "
            "occupying a slot; `ordered-queue doctor --fix` ends it"
            for run_id, age in found.items()
        ]
    told += [note for note in notes if note not in told]
    return [run for run in snapshot.runs if run.id not in aside]


def _zombies(
    snapshot: QueueSnapshot, deployment: DeploymentResponse, exclude_flow_run_id: UUID | None
) -> dict[UUID, timedelta]:
    concurrency_limit = deployment.global_concurrency_limit
    if concurrency_limit is None:
        return {}
    return counting.zombies(snapshot.runs, snapshot.now, concurrency_limit.active_slots, exclude_flow_run_id)


def _minutes(age: timedelta) -> str:
    return f"{age.total_seconds() / 60:.0f} min"

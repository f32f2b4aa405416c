"""What is wrong with one queue, judged from what was read of it.

Here: how the deployment and what stands around it are set up. `diagnosis_of_slots` judges the counter and the slots,
`diagnosis_of_runs` the runs.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from prefect.client.schemas.objects import DeploymentStatus, FlowRun, Worker, WorkerStatus

from ordered_queue import counting, promotion
from ordered_queue._doctor.diagnosis_of_runs import runs_findings
from ordered_queue._doctor.diagnosis_of_slots import slots_findings
from ordered_queue._doctor.findings import Finding, Kind, by_severity
from ordered_queue._doctor.observation import Observation, aged, some
from ordered_queue.ordering import PARKED_TAG, PROMOTED_STATE
from ordered_queue.submission import is_cancel_new

CLOCK_TOLERANCE = timedelta(seconds=3)
"""The ``Date`` header counts whole seconds and is up to 2 s behind."""


def diagnose(seen: Observation) -> tuple[Finding, ...]:
    """Everything that is to be said of one queue, the gravest first."""
    return by_severity(
        [
            *_limit_findings(seen),
            *_polling_findings(seen),
            *_reach_findings(seen),
            *_capacity_findings(seen),
            *slots_findings(seen),
            *runs_findings(seen),
        ]
    )


def diagnose_all(
    clock_difference: timedelta, orphans: Sequence[FlowRun], queues: Iterable[Sequence[Finding]]
) -> tuple[Finding, ...]:
    """What was found in each queue, with what concerns them all.

    Args:
        clock_difference: the server's clock minus ours.
        orphans: tagged scheduled runs whose deployment is gone.
        queues: the findings of each queue.
    """
    found = [finding for findings in queues for finding in findings]
    if abs(clock_difference) > CLOCK_TOLERANCE:
        ahead = "ahead of" if clock_difference > timedelta(0) else "behind"
        found.append(
            Finding(
                Kind.CLOCK,
                f"the server's clock is {abs(clock_difference).total_seconds():.0f} s {ahead} this machine's",
                "set both by the same time service",
            )
        )
    if orphans:
        found.append(
            Finding(
                Kind.ORPHANS,
                f"{some(orphans)} wait for a deployment that was deleted",
                "cancel or delete them; if they are wanted, deploy again and park them anew",
                flow_run_ids=_ids(orphans),
            )
        )
    return by_severity(found)


def _ids(runs: Iterable[FlowRun]) -> tuple[UUID, ...]:
    return tuple(run.id for run in runs)


def _limit_findings(seen: Observation) -> Generator[Finding, None, None]:
    """The concurrency limit and what becomes of a run that finds no slot."""
    deployment = seen.deployment
    concurrency_limit = deployment.global_concurrency_limit
    has_work = bool(seen.waiting or seen.due)
    if is_cancel_new(deployment) and has_work:
        yield seen.finding(
            Kind.CANCEL_NEW, "its collision strategy is CANCEL_NEW", "deploy it with collision strategy ENQUEUE"
        )
    if PARKED_TAG in deployment.tags:
        yield seen.finding(
            Kind.TAGGED_DEPLOYMENT,
            f"the deployment itself carries the tag {PARKED_TAG!r}",
            "take the tag off the deployment; the queue gives it to each run",
        )
    if concurrency_limit is None:
        yield seen.finding(Kind.NO_LIMIT, "it has no concurrency limit", "deploy it with a concurrency limit")
        return
    if has_work and not concurrency_limit.active:
        yield seen.finding(
            Kind.LIMIT_INACTIVE,
            f"its limit {concurrency_limit.name!r} is inactive",
            f"`prefect gcl enable {concurrency_limit.name}`",
        )
    elif has_work and concurrency_limit.limit == 0:
        yield seen.finding(Kind.LIMIT_ZERO, "its concurrency limit is 0", "raise the limit")
    if not seen.has_own_limit:
        yield seen.finding(
            Kind.SHARED_LIMIT,
            f"its concurrency limit {concurrency_limit.name!r} is not its own",
            "give the deployment a limit of its own",
        )


def _polling_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Whether what is promoted will be started: pauses and pollers."""
    deployment = seen.deployment
    if not (seen.waiting or seen.due):
        return
    pool_name = deployment.work_pool_name
    if deployment.paused:
        yield seen.finding(
            Kind.DEPLOYMENT_PAUSED,
            "the deployment is paused (`serve` does so as it stops) while runs wait",
            "resume it, or serve it again",
        )
    if seen.pool is not None and seen.pool.is_paused:
        yield seen.finding(
            Kind.POOL_PAUSED,
            f"the work pool {seen.pool.name!r} is paused while runs wait",
            f"`prefect work-pool resume {seen.pool.name}` when it should go on",
        )
    if seen.work_queue is not None and seen.work_queue.is_paused:
        yield seen.finding(
            Kind.QUEUE_PAUSED,
            f"the work queue {seen.work_queue.name!r} is paused while runs wait",
            f"`prefect work-queue resume {seen.work_queue.name} --pool {pool_name}` when it should go on",
        )
    if deployment.status == DeploymentStatus.READY or seen.needs_no_poller:
        return
    polled = "never was" if deployment.last_polled is None else "no longer is"
    yield aged(
        seen,
        Kind.NOBODY_POLLS,
        f"runs are due or wait, and the deployment {polled} polled{_workers(seen.workers)}",
        "serve the deployment, or start a worker for its work pool and queue",
        deployment.last_polled,
    )


def _workers(workers: Sequence[Worker]) -> str:
    online = [worker.name for worker in workers if worker.status == WorkerStatus.ONLINE]
    return f" (its pool's workers {', '.join(online)} are online: do they poll this work queue?)" if online else ""


def _reach_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Runs that no worker is ever given: parked before the deployment had a work pool, or their work queue is gone.

    No remedy for `--fix`: a run cannot be moved. Cancelled and parked again it is another run, with another id, at the
    end of the queue and unknown to whoever waits for the first one, and if its creation failed it would be lost.
    """
    if not seen.out_of_reach:
        return
    late = sum(run.state is not None and run.state.name == PROMOTED_STATE for run in seen.out_of_reach)
    since = min(filter(None, map(counting.state_since, seen.out_of_reach)), default=None)
    at_least = "" if seen.is_whole and seen.head_is_whole else "at least "
    yield aged(
        seen,
        Kind.OUT_OF_REACH,
        f"{at_least}{some(seen.out_of_reach)} belong to no work queue, while the deployment now has one, so no worker "
        f"is given them; {late or 'none'} of them stay{'s' if late == 1 else ''} Late",
        "cancel them (`prefect flow-run cancel ID`, or `ordered-queue cancel --submission KEY`) and park them again "
        "under a new submission key, since the old one finds the cancelled runs. Prefect cannot move them",
        since,
        seen.out_of_reach,
    )


def _capacity_findings(seen: Observation) -> Generator[Finding, None, None]:
    """Limits of the work pool and the work queue that are narrower than the deployment's own.

    A worker's ``--limit`` and a runner's ``limit`` are nowhere in the API; a run that is not taken although somebody
    polls tells of them (see `Kind.NOT_TAKEN`).
    """
    limit = promotion.limit_of(seen.deployment)
    if not limit:
        return
    pool, queue = seen.pool, seen.work_queue
    if pool is not None and pool.concurrency_limit is not None and pool.concurrency_limit < limit:
        yield seen.finding(
            Kind.POOL_LIMIT,
            f"the work pool {pool.name!r} has limit {pool.concurrency_limit}, the deployment {limit}",
            "raise the work pool's limit, or lower the deployment's",
        )
    if queue is not None and queue.concurrency_limit is not None and queue.concurrency_limit < limit:
        yield seen.finding(
            Kind.QUEUE_LIMIT,
            f"the work queue {queue.name!r} has limit {queue.concurrency_limit}, the deployment {limit}",
            "raise the work queue's limit, or lower the deployment's",
        )

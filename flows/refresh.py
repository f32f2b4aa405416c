"""Fill the queues of waiting runs: every night all of them, and one when a run of it was Cancelled or has Crashed.

``deployments.yaml`` deploys this flow with a concurrency limit of 1 and the collision strategy CANCEL_NEW: while one
refresh has the slot, Prefect cancels every other one that wants to start. So a thousand runs cancelled at once do not
start a thousand processes. A refresh that was dropped so may have been meant for another queue (or for all of them:
the nightly one); the one that runs makes up for it:

    1. It fills the queue it was started for. One that cannot be filled is tried again for some minutes, since
       nobody else may come by before the night.
    2. It looks up which refreshes were dropped since it was created, and fills the queues those were meant for.
    3. It looks again, until a look finds no new one, `MOST_ROUNDS` times at most.
    4. It ends, which frees the slot: from here on others start by themselves. What was dropped between the last look
       and this moment is found by the hook that runs after the end, and looks once more.

Left to the nightly refresh is what was dropped by a refresh whose process was killed.

Filling a queue twice promotes nothing twice, so it does no harm to fill one too often.
"""

import time
from dataclasses import replace
from datetime import timedelta
from typing import cast
from uuid import UUID

from prefect import Flow, State, flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.logging.loggers import flow_run_logger
from prefect.states import Completed, Failed

from ordered_queue import QueueSwept, sweep_sync

MOST_ROUNDS = 20
TRY_AGAIN_SECONDS = (5, 15, 45, 120)
"""How long to wait before each further try at the queues that could not be filled."""

MOST_DROPPED = 10_000
PAGE = 200  # The server returns no more at a time.
CLOCKS = timedelta(minutes=1)
"""How far the clocks of two API servers may be apart. Looking back too far only fills a queue once more."""

made_up_for: set[UUID] = set()
"""The dropped refreshes that this process has made up for. A process runs one refresh; its hook goes on from here."""


def look_once_more(flow: Flow, flow_run: FlowRun, state: State) -> None:
    """Fill the queues of the refreshes that were dropped while this one ended. The slot is free by now."""
    with get_client(sync_client=True) as client:
        fill(client, flow_run, newly_dropped(client, flow_run))


@flow(name="ordered-queue-refresh", on_completion=[look_once_more], on_failure=[look_once_more])
def refresh(deployment_id: UUID | None = None) -> State:
    """Promote the next waiting runs of one queue, or of every queue, as far as slots are free.

    Args:
        deployment_id: whose queue; None is every queue.

    Returns:
        Completed, with what was done; Failed, with what kept a queue from being filled. The other queues are filled
        all the same.
    """
    this_run = cast("FlowRunContext", FlowRunContext.get()).flow_run
    with get_client(sync_client=True) as client:
        swept = fill(client, cast("FlowRun", this_run), {deployment_id})
    looked_at = {queue.deployment_id for queue in swept}
    done = f"{len(looked_at)} queue(s) looked at, {sum(queue.promoted for queue in swept)} run(s) promoted"
    problems = [f"queue of deployment {queue.deployment_id}: {queue.problem}" for queue in swept if queue.problem]
    if problems:
        return Failed(message="; ".join([*problems, done]))
    return Completed(message=done)


def fill(client: SyncPrefectClient, this_run: FlowRun, queues: set[UUID | None]) -> list[QueueSwept]:
    """Fill these queues (None: all of them), then those of the refreshes that were dropped meanwhile."""
    logger = flow_run_logger(this_run)
    swept: list[QueueSwept] = []
    for _ in range(MOST_ROUNDS):
        if not queues:
            return swept
        for deployment_id in {None} if None in queues else queues:
            swept += try_to_fill(client, this_run, deployment_id)
        queues = newly_dropped(client, this_run)
    logger.warning("Refreshes are still being dropped after %d rounds; the next refresh goes on.", MOST_ROUNDS)
    return swept


def try_to_fill(client: SyncPrefectClient, this_run: FlowRun, deployment_id: UUID | None) -> list[QueueSwept]:
    """Fill one queue (None: all of them); those that could not be filled again after a while, a few times."""
    logger = flow_run_logger(this_run)
    swept = sweep_sync(client, deployment_id)
    for pause in TRY_AGAIN_SECONDS:
        failed = [queue for queue in swept if queue.problem and not is_gone(client, queue.deployment_id)]
        if not failed:
            break
        logger.warning("%d queue(s) could not be filled; trying again in %d s.", len(failed), pause)
        time.sleep(pause)
        for queue in failed:
            swept.remove(queue)
            again = sweep_sync(client, queue.deployment_id)
            swept += [replace(one, promoted=one.promoted + queue.promoted) for one in again]
    for queue in swept:
        problem = f" {queue.problem}" if queue.problem else ""
        logger.info("Queue of deployment %s: %d run(s) promoted.%s", queue.deployment_id, queue.promoted, problem)
    return swept


def is_gone(client: SyncPrefectClient, deployment_id: UUID | None) -> bool:
    """Whether the deployment was deleted meanwhile, so that trying again is of no use."""
    if deployment_id is None:
        return False
    try:
        client.read_deployment(deployment_id)
    except ObjectNotFound:
        return True
    except Exception:  # the server is away: that is why the queue could not be filled
        return False
    return False


def newly_dropped(client: SyncPrefectClient, this_run: FlowRun) -> set[UUID | None]:
    """The queues of the refreshes that were cancelled before they started, since this one was created."""
    if this_run.deployment_id is None or this_run.created is None:
        return set()  # Called by hand, outside of the deployment: it holds no slot, so it drops nobody.
    dropped = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[this_run.deployment_id]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLED])),
        end_time=FlowRunFilterEndTime(after_=this_run.created - CLOCKS),
    )
    found: dict[UUID, UUID | None] = {}
    for offset in range(0, MOST_DROPPED, PAGE):
        page = client.read_flow_runs(flow_run_filter=dropped, limit=PAGE, offset=offset)
        # By its run count, since Prefect sets the start time of a run that never started to its end time.
        never_started = [run for run in page if run.run_count == 0 and run.id not in made_up_for]
        found |= {run.id: run.parameters.get("deployment_id") for run in never_started}
        if len(page) < PAGE:
            break
    made_up_for.update(found)
    return {UUID(str(meant_for)) if meant_for else None for meant_for in found.values()}

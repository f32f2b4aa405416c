"""Look at a queue and at what stands around it, for a doctor. Everything is read, nothing is written.

A look costs seven requests a queue and up to three for its work pool; four more where a head of 1,000 runs is out of
every poller's reach. Of no kind of run more are read than a fill reads: 1,000, or what a higher limit asks for.
"""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, Worker, WorkPool, WorkQueue
from prefect.client.schemas.responses import DeploymentResponse
from pydantic import BaseModel

from ordered_queue import _calls, counting, promotion
from ordered_queue._calls import Call
from ordered_queue._doctor import calls
from ordered_queue._doctor.observation import Observation
from ordered_queue._steps.effects import (
    Patience,
    Steps,
    as_uuid,
    ask,
    ask_for_pages,
    ask_for_runs,
    malformed,
    read_deployment,
)
from ordered_queue._steps.pages import MOST_PAGES, pages_for, read_active, read_due, read_waiting
from ordered_queue._steps.sweep import list_deployment_ids
from ordered_queue.errors import RequestFailed
from ordered_queue.ordering import PARKED_TAG, is_out_of_reach

M = TypeVar("M", bound=BaseModel)

PATIENCE = Patience(attempt_seconds=30, total_seconds=60, most_attempts=6)
MOST_GENERATIONS = 5
"""How far up from a waiting run its parents are looked for: its parent may be a subflow of a deployment's run."""


def list_queues_in_use() -> Steps[list[UUID]]:
    """The ids of the deployments that have a queued run which has not ended, waiting or not."""
    return list_deployment_ids(calls.list_queues_in_use, PATIENCE)


def find_orphans() -> Steps[list[FlowRun]]:
    """Tagged scheduled runs whose deployment is gone, among the first 1,000.

    Deleting a deployment deletes its scheduled runs. One can become an orphan all the same: parked while the deployment
    was being deleted, or a finished run that somebody schedules again.
    """
    there = yield from ask(calls.count_waiting(with_deployment=True), PATIENCE)
    every = yield from ask(calls.count_waiting(with_deployment=False), PATIENCE)
    if there.body == every.body:
        return []
    waiting, _ = yield from ask_for_pages(calls.all_waiting_runs, PATIENCE, MOST_PAGES)
    wanted = sorted({run.deployment_id for run in waiting if run.deployment_id is not None})
    existing: set[UUID] = set()
    for start in range(0, len(wanted), _calls.PAGE):
        call = _calls.deployments_by_id(wanted[start : start + _calls.PAGE])
        answer = yield from ask(call, PATIENCE)
        try:
            existing |= {as_uuid(call, answer, item["id"]) for item in answer.body}
        except (TypeError, KeyError) as error:
            raise malformed(call, answer, error) from error
    return [run for run in waiting if run.deployment_id not in existing]


def look(deployment_id: UUID) -> Steps[Observation]:
    """Read a queue: its head, what is due, what is active, then the counter once more.

    The order of the reads is that of a fill, and for its reasons.

    Raises:
        RequestFailed: it could not be read, or the deployment is gone.
    """
    before, answer = yield from read_deployment(_calls.read_deployment(deployment_id), PATIENCE)
    now = answer.now

    def wanted(read: list[FlowRun]) -> int:
        return _calls.PAGE if all(is_out_of_reach(run, before.work_queue_id) for run in read) else 0

    head, head_is_whole = yield from read_waiting(deployment_id, now, PATIENCE, wanted)
    pages = pages_for(promotion.limit_of(before) or 0)
    due, due_is_whole = yield from read_due(deployment_id, now, PATIENCE, pages)
    active, active_is_whole = yield from read_active(deployment_id, PATIENCE, pages)
    bounced = yield from ask_for_runs(_calls.bounced_runs(deployment_id), PATIENCE)
    # Read last, it can tell a zombie from a run that has just started (see ``counting.zombies``).
    deployment, _ = yield from read_deployment(_calls.read_deployment(deployment_id), PATIENCE)
    parents = yield from _holding_parents([*head, *bounced], active)
    pool, work_queue, workers = yield from _surroundings(deployment)
    return Observation(
        deployment=deployment,
        counter_before=counting.counter_of(before),
        now=now,
        runs=(*head, *due, *active),
        is_whole=due_is_whole and active_is_whole,
        head_is_whole=head_is_whole,
        backlog=tuple(run for run in bounced if PARKED_TAG not in run.tags),
        parents=tuple(parents),
        pool=pool,
        work_queue=work_queue,
        workers=tuple(workers),
    )


def _holding_parents(waiting: list[FlowRun], active: list[FlowRun]) -> Steps[list[FlowRun]]:
    """Those of the active runs from which one descends that waits for a slot, in the queue or in Prefect's own way."""
    holders = {run.id: run for run in active}
    found: dict[UUID, FlowRun] = {}
    children = waiting
    for _ in range(MOST_GENERATIONS):
        task_run_ids = sorted({run.parent_task_run_id for run in children if run.parent_task_run_id is not None})
        if not task_run_ids:
            break
        children = yield from ask_for_runs(calls.parents_of(task_run_ids[: _calls.PAGE]), PATIENCE)
        found |= {run.id: holders[run.id] for run in children if run.id in holders}
    return list(found.values())


def _surroundings(deployment: DeploymentResponse) -> Steps[tuple[WorkPool | None, WorkQueue | None, list[Worker]]]:
    """The deployment's work pool, work queue and workers; nothing where there is none, or none any more."""
    pool_name, queue_name = deployment.work_pool_name, deployment.work_queue_name
    if pool_name is None:
        return None, None, []
    pool = yield from _read(calls.read_work_pool(pool_name), WorkPool)
    if pool is None:
        return None, None, []
    work_queue = None
    if queue_name is not None:
        work_queue = yield from _read(calls.read_work_queue(pool_name, queue_name), WorkQueue)
    call = calls.list_workers(pool_name)
    answer = yield from ask(call, PATIENCE)
    try:
        return pool, work_queue, [Worker.model_validate(item) for item in answer.body]
    except (TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error


def _read(call: Call, model: type[M]) -> Steps[M | None]:
    """The thing as the server has it; None if it is gone."""
    try:
        answer = yield from ask(call, PATIENCE)
    except RequestFailed as error:
        if error.status != 404:
            raise
        return None
    try:
        return model.model_validate(answer.body)
    except ValueError as error:
        raise malformed(call, answer, error) from error

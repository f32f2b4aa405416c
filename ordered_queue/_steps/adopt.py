"""Take the backlog of Prefect's own ENQUEUE into the queue: what waits for a slot without the queue's tag.

A run is adopted by its tag alone. That is no change of its state, so whoever starts, cancels or deletes it meanwhile
loses nothing and wins nothing. A tagged run that was never parked stands where it would stand had it been parked when
it was created (``ordering.first_parked_time``): adopted runs are promoted in the order of their creation, before
whatever was parked after them.

A run that was put in the future on purpose (by a schedule, or by hand) is left alone.
"""

from __future__ import annotations

from datetime import datetime, timezone
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls
from ordered_queue._steps.deployments import find_deployment
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, ask_for_pages, ask_for_runs
from ordered_queue._steps.pages import EVERY_PAGE, read_due
from ordered_queue._steps.server import require_server
from ordered_queue.errors import RequestFailed
from ordered_queue.ordering import PARKED_TAG, aware, is_bounced, standing
from ordered_queue.runs import Standing
from ordered_queue.suitability import refuse_unsuitable

PATIENCE = Patience(attempt_seconds=30, total_seconds=60)
MOST_PASSES = 5
"""Runs move while they are read, so one may slip from page to page unseen: look until a pass finds nothing new."""


def adopt(deployment: str | UUID | DeploymentResponse, adopted: list[UUID]) -> Steps[None]:
    """Tag every untagged run of the deployment that waits for a slot, in the order of their creation.

    Called twice, the second finds nothing left to do.

    Args:
        deployment: "flow/deployment", an id or an object.
        adopted: where to put what was tagged and read back, in order.

    Raises:
        DeploymentNotFound, DeploymentRefused, ServerTooOld: nothing was changed.
        RequestFailed: what is in `adopted` is adopted; repeat the call for the rest.
    """
    found, _ = yield from find_deployment(deployment, PATIENCE)
    refuse_unsuitable(found)
    yield from require_server(PATIENCE)
    for _ in range(MOST_PASSES):
        backlog = yield from read_backlog(found.id)
        if not backlog:
            return
        for start in range(0, len(backlog), _calls.CHUNK):
            chunk = backlog[start : start + _calls.CHUNK]
            for run in chunk:
                yield from _tag(run)
            read = yield from ask_for_runs(_calls.runs_by_id([run.id for run in chunk]), PATIENCE)
            tagged = {run.id for run in read if PARKED_TAG in run.tags}
            adopted += [run.id for run in chunk if run.id in tagged]


def read_backlog(deployment_id: UUID) -> Steps[list[FlowRun]]:
    """What waits for a slot without the tag: bounced, or due; in the order of creation."""
    bounced, _ = yield from ask_for_pages(
        lambda offset: _calls.bounced_runs(deployment_id, offset), PATIENCE, EVERY_PAGE
    )
    moment = yield Sleep(0)
    due, _ = yield from read_due(deployment_id, moment.now, PATIENCE, EVERY_PAGE)
    runs = {run.id: run for run in [*bounced, *due]}.values()
    return sorted((run for run in runs if _is_backlog(run, moment.now)), key=_creation_order)


def _is_backlog(run: FlowRun, now: datetime) -> bool:
    if PARKED_TAG in run.tags:
        return False
    return is_bounced(run) or standing(run, now) is Standing.OUTSIDER


def _creation_order(run: FlowRun) -> tuple[datetime, int]:
    """As ``ordering.order_key`` will see it: by the time at which the run was first due, then by id."""
    expected = run.expected_start_time
    if expected is None:
        return datetime.min.replace(tzinfo=timezone.utc), run.id.int
    return aware(expected, f"the expected start time of flow run {run.id}"), run.id.int


def _tag(run: FlowRun) -> Steps[None]:
    """Add the tag. The request replaces the whole list, so the others are sent along."""
    try:
        yield from ask(_calls.replace_tags(run.id, [*run.tags, PARKED_TAG]), PATIENCE)
    except RequestFailed as error:
        if error.status != 404:  # Deleted meanwhile.
            raise

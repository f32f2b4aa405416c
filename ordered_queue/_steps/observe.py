"""Read what the decision needs: the deployment, the head of its queue, what is due, what is active - in this order.

The order matters. A run moves from waiting to due to active; whatever moves on between two reads is then seen twice at
worst, and counted once by its id. Read the other way round it would be seen nowhere, and its slot given away.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls, promotion
from ordered_queue._calls import PAGE
from ordered_queue._steps.effects import Patience, Steps, read_deployment
from ordered_queue._steps.pages import read_active, read_due, read_waiting
from ordered_queue.ordering import is_bounced, standing
from ordered_queue.runs import QueueSnapshot, Standing


def observe(deployment_id: UUID, patience: Patience) -> Steps[QueueSnapshot | None]:
    """Read a queue; None if nothing waits or no slot can be free.

    Raises:
        RequestFailed: the server gave no usable answer.
    """
    deployment, answer = yield from read_deployment(_calls.read_deployment(deployment_id), patience)
    now = answer.now
    limit = promotion.limit_of(deployment)
    if limit == 0:
        return None
    head, head_is_whole = yield from read_waiting(deployment_id, now, patience, _wanted_of_head(limit, now))
    if not any(standing(run, now) is Standing.WAITING for run in head):
        return None
    due: list[FlowRun] = []
    active: list[FlowRun] = []
    is_whole = True
    if limit is not None:
        due, due_is_whole = yield from read_due(deployment_id, now, patience)
        active, active_is_whole = yield from read_active(deployment_id, patience)
        is_whole = due_is_whole and active_is_whole
    return QueueSnapshot(deployment, now, (*head, *due, *active), head_is_whole, is_whole)


def _wanted_of_head(limit: int | None, now: datetime) -> Callable[[list[FlowRun]], int]:
    """How many runs to read next from the head, until the waiting ones suffice.

    One page of about the limit nearly always does. More are read while it holds mostly runs that do not wait (a
    schedule's, on a deployment that carries the tag itself) or nothing but bounced ones: those are ordered by another
    time than the page is, so all of them must be seen.
    """

    def wanted(head: list[FlowRun]) -> int:
        if not head:
            return PAGE if limit is None else min(limit + 5, PAGE)
        waiting = [run for run in head if standing(run, now) is Standing.WAITING]
        enough = limit is None or len(waiting) >= limit
        return 0 if enough and not all(is_bounced(run) for run in waiting) else PAGE

    return wanted

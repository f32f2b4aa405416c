"""Read what the decision needs: the deployment, the head of its queue, what is due, what is active - in this order.

The order matters. A run moves from waiting to due to active; whatever moves on between two reads is then seen twice at
worst, and counted once by its id. Read the other way round it would be seen nowhere, and its slot given away.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls, promotion
from ordered_queue._calls import PAGE
from ordered_queue._steps.effects import Patience, Steps, read_deployment
from ordered_queue._steps.pages import pages_for, read_active, read_due, read_waiting
from ordered_queue.ordering import is_bounced, is_out_of_reach, standing
from ordered_queue.runs import QueueSnapshot, Standing

MOST_PROMOTIONS = 100
"""What one fill promotes at most: with the limit taken off 100,000 runs, one flow's hook must not promote them all.
The next fill goes on."""

AMONG_EQUALS = 5
"""How many runs are read beyond those: a page ends anywhere among runs of one time, which we order by id."""


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

    def is_in_reach(run: FlowRun) -> bool:
        return not is_out_of_reach(run, deployment.work_queue_id)

    def can_be_promoted(run: FlowRun) -> bool:
        return standing(run, now) is Standing.WAITING and is_in_reach(run)

    head, head_is_whole = yield from read_waiting(deployment_id, now, patience, _wanted_of_head(limit, can_be_promoted))
    can_promote = any(map(can_be_promoted, head))
    if not can_promote and all(map(is_in_reach, head)):
        return None
    due: list[FlowRun] = []
    active: list[FlowRun] = []
    is_whole = True
    if can_promote and limit is not None:
        due, due_is_whole = yield from read_due(deployment_id, now, patience, pages_for(limit))
        active, active_is_whole = yield from read_active(deployment_id, patience, pages_for(limit))
        is_whole = due_is_whole and active_is_whole
    runs = (*head, *due, *active)
    in_reach = tuple(filter(is_in_reach, runs))
    return QueueSnapshot(deployment, now, in_reach, head_is_whole, is_whole, len(runs) - len(in_reach))


def _wanted_of_head(limit: int | None, can_be_promoted: Callable[[FlowRun], bool]) -> Callable[[list[FlowRun]], int]:
    """How many runs to read next from the head, until those that can be promoted suffice.

    One page of about the limit, or of what one fill promotes, nearly always does. More are read while it holds mostly
    runs that do not wait (a schedule's, on a deployment that carries the tag itself) or nothing but bounced ones: those
    are ordered by another time than the page is, so all of them must be seen.
    """
    most = MOST_PROMOTIONS if limit is None else min(limit, MOST_PROMOTIONS)

    def wanted(head: list[FlowRun]) -> int:
        if not head:
            return min(most + AMONG_EQUALS, PAGE)
        waiting = [run for run in head if can_be_promoted(run)]
        enough = limit is None or len(waiting) >= most
        return 0 if enough and not all(is_bounced(run) for run in waiting) else PAGE

    return wanted

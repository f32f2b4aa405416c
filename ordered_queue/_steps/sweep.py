"""Sweep: fill every queue in which a run waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

from ordered_queue import _calls
from ordered_queue._calls import Call
from ordered_queue._steps.effects import Patience, Steps, as_uuid, ask, malformed
from ordered_queue._steps.fill import ATTEMPT_SECONDS, FILL_SECONDS, MOST_ATTEMPTS, Filled, fill_whole
from ordered_queue.errors import cause_of
from ordered_queue.runs import QueueSwept

MOST_DEPLOYMENT_PAGES = 50
"""How many pages of deployments are read at most: 10,000 queues."""


def sweep(
    deployment_id: UUID | None,
    promoted_timeout: timedelta,
    swept: list[QueueSwept],
    work_pool_name: str | None = None,
) -> Steps[None]:
    """Fill one queue, those of a work pool, or all.

    A queue that cannot be filled is told of in its `QueueSwept`; the others are filled all the same.

    Args:
        deployment_id: whose queue; None is every queue.
        promoted_timeout: how long a due run that nobody takes counts as occupying.
        swept: where to put what was done.
        work_pool_name: without a deployment, only the queues of this work pool.

    Raises:
        OrderedQueueError: the queues cannot be listed.
    """
    deployment_ids = [deployment_id] if deployment_id is not None else (yield from list_queues(work_pool_name))
    for each_id in deployment_ids:
        filled = Filled()
        problem = None
        try:
            yield from fill_whole(each_id, promoted_timeout, filled)
        except Exception as error:  # whatever is wrong with one queue, the others are filled
            problem = cause_of(error)
        swept.append(QueueSwept(each_id, len(filled.promoted), problem, tuple(filled.notes)))


def list_queues(work_pool_name: str | None = None) -> Steps[list[UUID]]:
    """The ids of the deployments (of a work pool, or all) in whose queues a run may wait."""
    call_at = partial(_calls.list_queues, work_pool_name=work_pool_name)
    return list_deployment_ids(call_at, Patience(ATTEMPT_SECONDS, FILL_SECONDS, MOST_ATTEMPTS))


def list_deployment_ids(call_at: Callable[[int], Call], patience: Patience) -> Steps[list[UUID]]:
    """The ids of all deployments that a call lists, page by page.

    Args:
        call_at: the call for the page at an offset.
        patience: how long to ask for each page.

    Raises:
        RequestFailed: the server gave no usable answer.
    """
    found: list[UUID] = []
    for _ in range(MOST_DEPLOYMENT_PAGES):
        call = call_at(len(found))
        answer = yield from ask(call, patience)
        try:
            page = [as_uuid(call, answer, item["id"]) for item in answer.body]
        except (TypeError, KeyError) as error:
            raise malformed(call, answer, error) from error
        found += page
        if len(page) < _calls.PAGE:
            break
    return found

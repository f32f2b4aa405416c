"""Read what the decision needs: the deployment, the head of its queue, what is due, what is active - in this order.

The order matters. A run moves from waiting to due to active; whatever moves on between two reads is then seen twice at
worst, and counted once by its id. Read the other way round it would be seen nowhere, and its slot given away.

For the same reason pages follow times, not offsets: a run that leaves the pages read so far would move the rest up by
one, and the first run of the next page would be read nowhere. Runs may be read twice instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls, promotion
from ordered_queue._steps.effects import Patience, Steps, ask_for_pages, ask_for_runs, read_deployment
from ordered_queue.ordering import is_bounced, scheduled_time, standing
from ordered_queue.runs import QueueSnapshot, Standing

MOST_PAGES = 5
"""How many pages of one kind a pass reads: 1,000 runs."""


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
    head, head_is_whole = yield from _read_head(deployment_id, now, limit, patience)
    if not any(standing(run, now) is Standing.WAITING for run in head):
        return None
    due: list[FlowRun] = []
    active: list[FlowRun] = []
    is_whole = True
    if limit is not None:
        due, due_is_whole = yield from _read_due(deployment_id, now, patience)
        active, active_is_whole = yield from _read_active(deployment_id, patience)
        is_whole = due_is_whole and active_is_whole
    return QueueSnapshot(deployment, now, (*head, *due, *active), head_is_whole, is_whole)


@dataclass(frozen=True)
class _Place:
    """Where the next page of runs in order of their times begins.

    Attributes:
        after: runs at this time or later; None from the start.
        offset: how many of them to pass over: steps through equal times only.
    """

    after: datetime | None
    offset: int = 0

    def behind(self, page: list[FlowRun]) -> _Place:
        """The place behind a page."""
        last = scheduled_time(page[-1]) if page else None
        if last is None or (self.after is not None and last <= self.after):
            return _Place(self.after, self.offset + len(page))
        return _Place(last)


def _read_head(
    deployment_id: UUID, now: datetime, limit: int | None, patience: Patience
) -> Steps[tuple[list[FlowRun], bool]]:
    """Read from the head until the waiting runs suffice, and whether that was all of them.

    One page of about the limit nearly always does. More are read while it holds mostly runs that do not wait (a
    schedule's, on a deployment that carries the tag itself) or nothing but bounced ones: those are ordered by another
    time than the page is, so all of them must be seen.
    """
    wanted = _calls.PAGE if limit is None else min(limit + 5, _calls.PAGE)
    head: list[FlowRun] = []
    place = _Place(now)
    for _ in range(MOST_PAGES):
        after = place.after or now
        page = yield from ask_for_runs(_calls.waiting_runs(deployment_id, after, wanted, place.offset), patience)
        place = place.behind(page)
        head += page
        if len(page) < wanted:
            return head, True
        waiting = {run.id: run for run in head if standing(run, now) is Standing.WAITING}.values()
        enough = limit is None or len(waiting) >= limit
        if enough and not all(is_bounced(run) for run in waiting):
            return head, False
        wanted = _calls.PAGE
    return head, False


def _read_due(deployment_id: UUID, now: datetime, patience: Patience) -> Steps[tuple[list[FlowRun], bool]]:
    """Read what is due, and whether that was all."""
    runs: list[FlowRun] = []
    place = _Place(None)
    for _ in range(MOST_PAGES):
        page = yield from ask_for_runs(_calls.due_runs(deployment_id, now, place.offset, place.after), patience)
        place = place.behind(page)
        runs += page
        if len(page) < _calls.PAGE:
            return runs, True
    return runs, False


def _read_active(deployment_id: UUID, patience: Patience) -> Steps[tuple[list[FlowRun], bool]]:
    """Read what is active, and whether that was all. By offset: one that ends frees what is missed."""
    return ask_for_pages(lambda offset: _calls.active_runs(deployment_id, offset), patience, MOST_PAGES)

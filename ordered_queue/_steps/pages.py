"""Read the runs of a queue that stand in one place - waiting, due or active - a page at a time.

Pages of what waits and of what is due follow times, not offsets: a run that leaves the pages read so far would move
the rest up by one, and the first run of the next page would be read nowhere. Read this way a run may be in two pages
instead; the later reading is the one that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls
from ordered_queue._calls import PAGE, Call
from ordered_queue._steps.effects import Patience, Steps, ask_for_pages, ask_for_runs
from ordered_queue.ordering import scheduled_time

MOST_PAGES = 5
"""How many pages of one kind are read where no limit asks for more: 1,000 runs."""

MOST_PAGES_OF_A_LIMIT = 50
"""How many are read for the sake of a high limit: 10,000 runs."""


def pages_for(limit: int) -> int:
    """How many pages of one kind a fill reads: enough to see that `limit` runs and more occupy slots."""
    return min(max(MOST_PAGES, limit // PAGE + 2), MOST_PAGES_OF_A_LIMIT)


EVERY_PAGE = 5_000
"""For an operator, who wants the whole queue: a million runs."""


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


def read_waiting(
    deployment_id: UUID,
    now: datetime,
    patience: Patience,
    wanted: Callable[[list[FlowRun]], int],
    most_pages: int = MOST_PAGES,
) -> Steps[tuple[list[FlowRun], bool]]:
    """Read from the head what is scheduled at or after `now` and tagged; the runs, and whether that was all.

    Args:
        deployment_id: whose queue.
        now: where the queue begins.
        patience: with the server.
        wanted: how many runs to ask for next, given those read so far; 0 when they suffice.
        most_pages: how many requests this may take.

    Raises:
        RequestFailed: a page could not be had.
    """
    return _read_by_time(
        lambda place, size: _calls.waiting_runs(deployment_id, place.after or now, size, place.offset),
        patience,
        wanted,
        most_pages,
    )


def read_due(
    deployment_id: UUID, now: datetime, patience: Patience, most_pages: int = MOST_PAGES
) -> Steps[tuple[list[FlowRun], bool]]:
    """Read what is scheduled at or before `now`, tagged or not; the runs, and whether that was all.

    Raises:
        RequestFailed: a page could not be had.
    """
    return _read_by_time(
        lambda place, _: _calls.due_runs(deployment_id, now, place.offset, place.after),
        patience,
        lambda _: PAGE,
        most_pages,
    )


def read_active(
    deployment_id: UUID, patience: Patience, most_pages: int = MOST_PAGES
) -> Steps[tuple[list[FlowRun], bool]]:
    """Read what is active; the runs, and whether that was all. By offset: one that ends frees what is missed.

    Raises:
        RequestFailed: a page could not be had.
    """
    return ask_for_pages(lambda offset: _calls.active_runs(deployment_id, offset), patience, most_pages)


def _read_by_time(
    call_at: Callable[[_Place, int], Call],
    patience: Patience,
    wanted: Callable[[list[FlowRun]], int],
    most_pages: int,
) -> Steps[tuple[list[FlowRun], bool]]:
    runs: dict[UUID, FlowRun] = {}
    place = _Place(None)
    for _ in range(most_pages):
        size = wanted(list(runs.values()))
        if size == 0:
            break
        page = yield from ask_for_runs(call_at(place, size), patience)
        runs |= {run.id: run for run in page}
        place = place.behind(page)
        if len(page) < size:
            return list(runs.values()), True
    return list(runs.values()), False

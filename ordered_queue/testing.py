"""What you need to test the ordering of your own flows, and what this project measures itself with.

Give these functions the flow runs of one deployment as Prefect returns them, or the positions and times that you took
from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from prefect.client.schemas.objects import FlowRun

from ordered_queue.ordering import PARKED_TAG


def in_submission_order(runs: Iterable[FlowRun]) -> list[FlowRun]:
    """The runs that went through the queue, by the time that they were first parked at."""
    parked = [(run.expected_start_time, run.id.int, run) for run in runs if PARKED_TAG in run.tags]
    return [run for _, _, run in sorted([(time, number, run) for time, number, run in parked if time is not None])]


def out_of_order_pairs(started: Sequence[datetime], limit: int) -> int:
    """How many pairs started in the wrong order.

    Args:
        started: start times, in order of submission.
        limit: the concurrency limit. Runs fewer than `limit` positions apart may hold slots together and reach
        Running in
            either order, so only pairs at least `limit` apart count.
    """
    return sum(
        started[later] < started[earlier]
        for earlier in range(len(started))
        for later in range(earlier + limit, len(started))
    )


def most_at_once(intervals: Iterable[tuple[datetime, datetime]]) -> int:
    """The most intervals (start, end) that overlap. One that ends as another starts does not overlap it."""
    edges = sorted(edge for start, end in intervals for edge in ((start, 1), (end, -1)))
    running = most = 0
    for _, change in edges:
        running += change
        most = max(most, running)
    return most


def idle_times(intervals: Sequence[tuple[datetime, datetime]], limit: int) -> list[timedelta]:
    """How long each slot stood idle between a run's end and the start of the run that took it.

    Args:
        intervals: (slot taken, slot freed) of every run, in any order.
        limit: how many slots there are.
    """
    free_since: list[datetime] = []
    idle: list[timedelta] = []
    edges = sorted([(end, 0) for _, end in intervals] + [(start, 1) for start, _ in intervals])
    unused = limit
    for moment, is_start in edges:
        if not is_start:
            free_since.append(moment)
        elif unused > 0:
            unused -= 1
        elif free_since:
            idle.append(moment - free_since.pop(0))
    return idle


def assert_in_order(runs: Iterable[FlowRun], limit: int) -> None:
    """Fail if runs at least `limit` positions apart started in the wrong order, or more than `limit` ran at once.

    Args:
        runs: finished runs of one deployment.
        limit: its concurrency limit.

    Raises:
        AssertionError: what was broken.
    """
    ordered = [run for run in in_submission_order(runs) if run.start_time is not None]
    started = [run.start_time for run in ordered if run.start_time is not None]
    wrong = out_of_order_pairs(started, limit)
    if wrong:
        raise AssertionError(f"{wrong} pairs of runs started out of order: {[run.name for run in ordered]}")
    most = most_at_once((run.start_time, run.end_time) for run in ordered if run.start_time and run.end_time)
    if most > limit:
        raise AssertionError(f"{most} runs ran at once; the limit is {limit}")

"""The order of a queue, and where a run stands in it.

Earlier means: runs that Prefect bounced to ``AwaitingConcurrencySlot`` before parked ones; bounced runs among
themselves by their first parked time (``expected_start_time``, which nothing rewrites); parked runs by parked time;
then by id, so that the order is total. A bounced run that was never parked (a copy) counts as parked when it was
created.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, StateType

from ordered_queue.runs import Standing

PARK_DELAY: timedelta = timedelta(days=30)
"""How far in the future a run is parked: far outside any prefetch window, longer than a queue should be."""

PARKED_TAG: str = "ordered-queue"
"""The tag that marks a run as a member of a queue. It stays on the run for its whole life."""

SPACING: timedelta = timedelta(milliseconds=1)
"""The distance between the parked times of two neighbours in a submission."""

BOUNCED_STATE = "AwaitingConcurrencySlot"
PROMOTED_STATE = "Late"
RETRY_STATE = "AwaitingRetry"

_ACTIVE_TYPES = frozenset({StateType.RUNNING, StateType.PENDING, StateType.CANCELLING})


def aware(moment: datetime, what: str) -> datetime:
    """Return `moment` in UTC, as a plain datetime.

    A plain one, because Prefect's objects hold pendulum's, which lose their time zone when a timedelta is
    subtracted after ``astimezone(timezone.utc)``.

    Raises:
        ValueError: it has no time zone, so it could mean any of many moments.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"{what} has no time zone: {moment!r}. Pass an aware datetime.")
    utc = moment.astimezone(timezone.utc)
    return datetime(
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=timezone.utc
    )


def parked_time(base: datetime, position: int) -> datetime:
    """The parked scheduled time of a run.

    Args:
        base: aware; when the submission was made, or rather what `submission_base` makes of it.
        position: the run's 0-based place in the submission.

    Returns:
        base + PARK_DELAY + `position` milliseconds, in UTC (so that a change to or from daylight-saving time on the way
        moves nothing). The same arguments always give the same time.

    Raises:
        ValueError: `base` is naive, or `position` is negative.
    """
    if position < 0:
        raise ValueError(f"a position counts from 0, this one is {position}")
    return aware(base, "base") + PARK_DELAY + position * SPACING


def submission_base(now: datetime, tail: datetime | None, jitter: timedelta) -> datetime:
    """The base from which a submission's parked times count, so that it appends behind what is there.

    Args:
        now: aware; the time of submission.
        tail: the latest parked time known in the queue, None if it never held a run.
        jitter: 0 to 999 µs, random: two submitters that read the same tail must not tie, since the order of equal
            times is undefined in PostgreSQL and its pages then overlap.
    """
    base = aware(now, "now")
    if tail is not None:
        base = max(base, aware(tail, "tail") - PARK_DELAY + SPACING)
    return base + jitter


def scheduled_time(run: FlowRun) -> datetime | None:
    """When the run is due, in UTC; None if its state has no time.

    Raises:
        ValueError: the time is naive.
    """
    due = run.next_scheduled_start_time
    if due is None and run.state is not None:
        due = run.state.state_details.scheduled_time
    return None if due is None else aware(due, f"the scheduled time of flow run {run.id}")


def is_bounced(run: FlowRun) -> bool:
    """Whether Prefect found no slot for the run and sent it back to wait."""
    return run.state is not None and run.state.name == BOUNCED_STATE


def standing(run: FlowRun, now: datetime) -> Standing:
    """What the run is to its queue at `now`.

    A run waits if it is tagged and scheduled in the future and either bounced, or parked and never tried. What a
    schedule, a delayed retry or a person put in the future on purpose is not pulled forward. A run named Late was
    promoted even if its time is ahead of `now`, which then is a slow clock: the server would refuse to promote it
    again.
    """
    state = run.state
    if state is None:
        return Standing.NONE
    if state.type in _ACTIVE_TYPES:
        return Standing.ACTIVE
    if state.type != StateType.SCHEDULED:
        return Standing.NONE
    if run.empirical_policy.retry_type == "in_process":
        return Standing.RETRYING
    due = scheduled_time(run)
    is_due = due is None or due <= now
    if PARKED_TAG not in run.tags:
        return Standing.OUTSIDER if is_due else Standing.NONE
    if is_due or state.name == PROMOTED_STATE:
        return Standing.PROMOTED
    if is_bounced(run):
        return Standing.WAITING
    chosen_time = run.auto_scheduled or run.run_count > 0 or state.name == RETRY_STATE
    return Standing.NONE if chosen_time or not _was_parked(run) else Standing.WAITING


def is_out_of_reach(run: FlowRun, work_queue_id: UUID | None) -> bool:
    """Whether no poller is ever given the run: it belongs to no work queue, and its deployment does to one.

    A run keeps the work queue that its deployment had when it was created; with a deleted work queue it has none.
    Workers ask for the runs of their work queues. Prefect has no way to move a run to another.

    Args:
        run: any run. One that waits inside its process for a retry needs no poller.
        work_queue_id: its deployment's.
    """
    is_scheduled = run.state is not None and run.state.type == StateType.SCHEDULED
    needs_poller = is_scheduled and run.empirical_policy.retry_type != "in_process"
    return needs_poller and run.work_queue_id is None and work_queue_id is not None


def first_parked_time(run: FlowRun) -> datetime | None:
    """When the run was first parked to start by itself, in UTC; for one never parked, as if it had been when created.

    A copy made in the UI carries the tag, is due at once, and may bounce: it then stands where a submission of
    that moment stands, not before those who queued.
    """
    if run.expected_start_time is None:
        return scheduled_time(run)
    expected = aware(run.expected_start_time, f"the expected start time of flow run {run.id}")
    return expected if _was_parked(run) else expected + PARK_DELAY


def _was_parked(run: FlowRun) -> bool:
    """Whether the run was created to start far in the future; taken as true where the object does not say."""
    if run.expected_start_time is None or run.created is None:
        return True
    expected = aware(run.expected_start_time, f"the expected start time of flow run {run.id}")
    return expected - aware(run.created, f"the creation of flow run {run.id}") > PARK_DELAY / 2


def order_key(run: FlowRun) -> tuple[bool, datetime, int]:
    """The key that sorts waiting runs earliest first. Total: it ends in the id."""
    due = first_parked_time(run) if is_bounced(run) else scheduled_time(run)
    if due is None:
        due = datetime.min.replace(tzinfo=timezone.utc)
    goes_first = is_bounced(run) and (run.expected_start_time is None or due == run.expected_start_time)
    return (not goes_first, due, run.id.int)

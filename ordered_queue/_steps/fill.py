"""Fill a queue: promote as many waiting runs as there are free slots.

    read the deployment (its limit), the head of the queue, what is due, what is active - in this order
    -> decide (``promotion.runs_to_promote``) -> promote each chosen run, in order
    -> read and decide again until a pass meets no refusal

The order of the reads matters. A run moves from waiting to due to active; whatever moves on between two
reads is then seen twice at worst, and counted once by its id. Read the other way round it would be seen nowhere, and
its slot given away.

Two promoters:
    1. P reads: one slot free, A first.     2. Q reads the same.
    3. Q promotes A: accepted.              4. P promotes A: refused, A is Late already.
    5. P reads again: A is due, no slot is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import cast
from uuid import UUID, uuid4

from prefect.client.schemas.objects import DeploymentStatus, FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls, counting, promotion
from ordered_queue._calls import Call
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, ask_for_runs, malformed, read_deployment
from ordered_queue._steps.server import require_server_for
from ordered_queue.errors import OrderedQueueError, RequestFailed
from ordered_queue.ordering import is_bounced, standing
from ordered_queue.runs import QueueSnapshot, Standing
from ordered_queue.submission import is_cancel_new

MOST_PROMOTIONS = 100
"""What one fill promotes at most: with the limit taken off 100,000 runs, one flow's hook must not promote them all.
The next fill goes on."""

MOST_PASSES = 20
"""How often one fill reads and decides. Each pass but the last was overtaken by somebody else's progress."""

MOST_PAGES = 5
"""How many pages of one kind a pass reads: 1,000 runs."""

FILL_SECONDS = 8.0
"""What one fill may take, retries included; with what surrounds it, under the 10 s promised to a flow's end."""

ATTEMPT_SECONDS = 4.0
MOST_ATTEMPTS = 4


@dataclass
class Filled:
    """What a fill has done so far. It is filled in as it goes, so that a fill cut short still tells.

    Attributes:
        promoted: the runs promoted, in order.
        notes: what an operator should know.
    """

    promoted: list[UUID] = field(default_factory=list[UUID])
    notes: list[str] = field(default_factory=list[str])


def fill(
    deployment_id: UUID,
    exclude_flow_run_id: UUID | None,
    promoted_timeout: timedelta,
    filled: Filled,
) -> Steps[None]:
    """Promote as many waiting runs of the deployment as it has free slots.

    Args:
        deployment_id: whose queue.
        exclude_flow_run_id: the run that is handing its slot over.
        promoted_timeout: how long a due run that nobody takes counts as occupying.
        filled: where to put what was done.

    Raises:
        OrderedQueueError: why it could not finish.
    """
    moment = yield Sleep(0)
    patience = Patience(
        attempt_seconds=ATTEMPT_SECONDS,
        total_seconds=FILL_SECONDS,
        most_attempts=MOST_ATTEMPTS,
        deadline_seconds=moment.elapsed_seconds + FILL_SECONDS,
    )
    for _ in range(MOST_PASSES):
        snapshot = yield from observe(deployment_id, patience)
        if snapshot is None:
            return
        if is_cancel_new(snapshot.deployment):
            filled.notes.append(
                "its collision strategy is CANCEL_NEW, which would cancel a promoted run that finds no slot: "
                "nothing is promoted until it is deployed with ENQUEUE"
            )
            return
        limit = promotion.limit_of(snapshot.deployment)
        counted = yield from _without_set_aside(
            snapshot, limit, exclude_flow_run_id, promoted_timeout, patience, filled
        )
        if limit is not None and not snapshot.occupied_is_whole:
            return  # At least 1,000 runs occupy slots. A count that is too low would break the limit.
        room = MOST_PROMOTIONS - len(filled.promoted)
        chosen = promotion.runs_to_promote(counted, limit, snapshot.now, exclude_flow_run_id)[:room]
        if not chosen:
            return
        yield from require_server_for(chosen, patience)
        refused = yield from _promote_in_order(chosen, snapshot.now, patience, filled)
        waiting = sum(standing(run, snapshot.now) is Standing.WAITING for run in snapshot.runs)
        more_may_fit = len(chosen) >= waiting and not snapshot.head_is_whole
        if not refused and (not more_may_fit or len(filled.promoted) >= MOST_PROMOTIONS):
            return


def observe(deployment_id: UUID, patience: Patience) -> Steps[QueueSnapshot | None]:
    """Read what the decision needs; None if nothing waits or no slot can be free."""
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
        due, due_is_whole = yield from _pages(lambda offset: _calls.due_runs(deployment_id, now, offset), patience)
        active, active_is_whole = yield from _pages(lambda offset: _calls.active_runs(deployment_id, offset), patience)
        is_whole = due_is_whole and active_is_whole
    return QueueSnapshot(deployment, now, (*head, *due, *active), head_is_whole, is_whole)


def _read_head(
    deployment_id: UUID, now: datetime, limit: int | None, patience: Patience
) -> Steps[tuple[list[FlowRun], bool]]:
    """Read from the head until the waiting runs suffice, and whether that was all of them.

    One page of about the limit nearly always does. More are read while it holds mostly runs that do not wait (a
    schedule's, on a deployment that carries the tag itself) or nothing but bounced ones: those are ordered by another
    time than the page is, so all of them must be seen.
    """
    wanted = promotion_page(limit)
    head: list[FlowRun] = []
    for _ in range(MOST_PAGES):
        page = yield from ask_for_runs(_calls.waiting_runs(deployment_id, now, wanted, len(head)), patience)
        head += page
        if len(page) < wanted:
            return head, True
        waiting = [run for run in head if standing(run, now) is Standing.WAITING]
        enough = limit is None or len(waiting) >= limit
        if enough and not all(is_bounced(run) for run in waiting):
            return head, False
        wanted = _calls.PAGE
    return head, False


def promotion_page(limit: int | None) -> int:
    """How many runs to read from the head of the queue: about as many as the limit."""
    return _calls.PAGE if limit is None else min(limit + 5, _calls.PAGE)


def _pages(call_at: Callable[[int], Call], patience: Patience) -> Steps[tuple[list[FlowRun], bool]]:
    """Read pages until one is not full, and whether that was all."""
    runs: list[FlowRun] = []
    for _ in range(MOST_PAGES):
        page = yield from ask_for_runs(call_at(len(runs)), patience)
        runs += page
        if len(page) < _calls.PAGE:
            return runs, True
    return runs, False


def _without_set_aside(
    snapshot: QueueSnapshot,
    limit: int | None,
    exclude_flow_run_id: UUID | None,
    promoted_timeout: timedelta,
    patience: Patience,
    filled: Filled,
) -> Steps[list[FlowRun]]:
    """The runs of the snapshot without those that stop counting (see ``counting``), each of which is noted."""
    untaken = counting.not_taken(snapshot.runs, snapshot.now, promoted_timeout)
    is_polled = snapshot.deployment.status == DeploymentStatus.READY
    aside = dict(islice(untaken.items(), (limit or 0) if is_polled else 0))
    notes = [
        f"flow run {run_id} is due and has not been taken for {_minutes(age)}: is anybody polling its work queue? It "
        f"{'no longer' if run_id in aside else 'still'} counts as occupying a slot"
        for run_id, age in untaken.items()
    ]
    if limit is not None and _zombies(snapshot, snapshot.deployment, exclude_flow_run_id):
        # The counter was read before the runs; only one read after them can tell a zombie from a run just started.
        deployment, _ = yield from read_deployment(_calls.read_deployment(snapshot.deployment.id), patience)
        found = _zombies(snapshot, deployment, exclude_flow_run_id)
        aside |= found
        notes += [
            f"flow run {run_id} has been in its state for {_minutes(age)} and its slot's lease has lapsed: its "
            "process is most likely gone. It no longer counts as occupying a slot; cancel it or set it to Crashed"
            for run_id, age in found.items()
        ]
    filled.notes += [note for note in notes if note not in filled.notes]
    return [run for run in snapshot.runs if run.id not in aside]


def _zombies(
    snapshot: QueueSnapshot, deployment: DeploymentResponse, exclude_flow_run_id: UUID | None
) -> dict[UUID, timedelta]:
    concurrency_limit = deployment.global_concurrency_limit
    if concurrency_limit is None:
        return {}
    return counting.zombies(snapshot.runs, snapshot.now, concurrency_limit.active_slots, exclude_flow_run_id)


def _minutes(age: timedelta) -> str:
    return f"{age.total_seconds() / 60:.0f} min"


def _promote_in_order(chosen: list[FlowRun], now: datetime, patience: Patience, filled: Filled) -> Steps[bool]:
    """Promote the chosen runs, earliest first; stop at the first refusal and say whether there was one."""
    for run, when in zip(chosen, promotion.promotion_times(now, len(chosen)), strict=True):
        accepted = yield from promote(run.id, when, patience)
        if not accepted:
            return True
        filled.promoted.append(run.id)
    return False


def promote(flow_run_id: UUID, when: datetime, patience: Patience) -> Steps[bool]:
    """Move a run's scheduled time to `when`, if it still waits.

    Returns:
        whether it was this call that did it. False: it moved on (promoted, started, cancelled or deleted).
    """
    transition_id = uuid4()
    call = _calls.promote(flow_run_id, when, transition_id)
    try:
        answer = yield from ask(call, patience)
    except RequestFailed as error:
        if error.status == 404:
            return False
        raise
    try:
        if answer.body["status"] == "ACCEPT":
            return True
        # An answer that got lost: the request was sent again and meets the state that it made itself.
        state = cast("dict[str, dict[str, object]]", answer.body.get("state") or {})
        return (state.get("state_details") or {}).get("transition_id") == str(transition_id)
    except (AttributeError, KeyError, TypeError) as error:
        raise malformed(call, answer, error) from error


def problem_of(error: OrderedQueueError) -> str:
    """The error in the words of a log line."""
    return str(error).rstrip(".")

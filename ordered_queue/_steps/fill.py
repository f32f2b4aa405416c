"""Fill a queue: promote as many waiting runs as there are free slots.

    read what the decision needs (``observe``) -> decide (``promotion.runs_to_promote``)
    -> promote each chosen run, in order -> read and decide again until a pass meets no refusal

Two promoters:
    1. P reads: one slot free, A first.     2. Q reads the same.
    3. Q promotes A: accepted.              4. P promotes A: refused, A is Late already.
    5. P reads again: A is due, no slot is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls, promotion
from ordered_queue._calls import PROMOTED_MESSAGE
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, malformed
from ordered_queue._steps.observe import MOST_PROMOTIONS, observe
from ordered_queue._steps.pages import pages_for
from ordered_queue._steps.server import require_server_for
from ordered_queue._steps.set_aside import without_set_aside
from ordered_queue.errors import RequestFailed
from ordered_queue.ordering import standing
from ordered_queue.runs import QueueSnapshot, Standing
from ordered_queue.submission import is_cancel_new

MOST_FILLS = 50
"""How many fills in a row those make who are in no hurry (a sweep, a submission): 5,000 promotions of one queue."""

MOST_PASSES = 20
"""How often one fill reads and decides. Each pass but the last was overtaken by somebody else's progress."""

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

    def note(self, text: str) -> None:
        """Tell an operator of something, once."""
        if text not in self.notes:
            self.notes.append(text)


def fill_whole(deployment_id: UUID, promoted_timeout: timedelta, filled: Filled) -> Steps[None]:
    """Fill as often as one fill after the other promotes all that it may: for those who are in no hurry.

    Args:
        deployment_id: whose queue.
        promoted_timeout: how long a due run that nobody takes counts as occupying.
        filled: where to put what was done.

    Raises:
        OrderedQueueError: why it could not finish.
    """
    for _ in range(MOST_FILLS):
        most = len(filled.promoted) + MOST_PROMOTIONS
        yield from fill(deployment_id, None, promoted_timeout, filled)
        if len(filled.promoted) < most:
            return


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
    if exclude_flow_run_id is not None:
        exclude_flow_run_id = UUID(str(exclude_flow_run_id))  # ``prefect.runtime.flow_run.id`` is text
    moment = yield Sleep(0)
    patience = Patience(
        attempt_seconds=ATTEMPT_SECONDS,
        total_seconds=FILL_SECONDS,
        most_attempts=MOST_ATTEMPTS,
        deadline_seconds=moment.elapsed_seconds + FILL_SECONDS,
    )
    most = len(filled.promoted) + MOST_PROMOTIONS
    for _ in range(MOST_PASSES):
        snapshot = yield from observe(deployment_id, patience)
        if snapshot is None:
            return
        may_be_chosen = yield from _choose(snapshot, exclude_flow_run_id, promoted_timeout, patience, filled)
        chosen = may_be_chosen[: most - len(filled.promoted)]
        if not chosen:
            return
        yield from require_server_for(chosen, patience)
        refused = yield from _promote_in_order(chosen, snapshot.now, patience, filled)
        waiting = sum(standing(run, snapshot.now) is Standing.WAITING for run in snapshot.runs)
        more_may_fit = len(chosen) >= waiting and not snapshot.head_is_whole
        if not refused and (not more_may_fit or len(filled.promoted) >= most):
            return


def _choose(
    snapshot: QueueSnapshot,
    exclude_flow_run_id: UUID | None,
    promoted_timeout: timedelta,
    patience: Patience,
    filled: Filled,
) -> Steps[list[FlowRun]]:
    """The runs to promote now, earliest first."""
    if is_cancel_new(snapshot.deployment):
        filled.note(
            "its collision strategy is CANCEL_NEW, which would cancel a promoted run that finds no slot: nothing is "
            "promoted until it is deployed with ENQUEUE"
        )
        return []
    limit = promotion.limit_of(snapshot.deployment)
    if snapshot.out_of_reach:
        filled.note(
            f"{snapshot.out_of_reach} scheduled run(s) belong to no work queue, while their deployment now has one: no "
            "worker is ever given them. They are passed over. Cancel them and park them again"
        )
    counted = yield from without_set_aside(
        snapshot, limit, exclude_flow_run_id, promoted_timeout, patience, filled.notes
    )
    chosen = promotion.runs_to_promote(counted, limit, snapshot.now, exclude_flow_run_id)
    if chosen and limit is not None and not snapshot.occupied_is_whole:
        # A count that is too low would break the limit.
        read = pages_for(limit) * _calls.PAGE
        filled.note(f"{read} or more of its runs are due or active: not all can be counted, so nothing is promoted")
        return []
    return chosen


def _promote_in_order(chosen: list[FlowRun], now: datetime, patience: Patience, filled: Filled) -> Steps[bool]:
    """Promote the chosen runs, earliest first; stop at the first refusal and say whether there was one."""
    for run, when in zip(chosen, promotion.promotion_times(now, len(chosen)), strict=True):
        accepted = yield from promote(run.id, when, patience)
        if not accepted:
            return True
        filled.promoted.append(run.id)
    return False


def promote(flow_run_id: UUID, when: datetime, patience: Patience, message: str = PROMOTED_MESSAGE) -> Steps[bool]:
    """Move a run's scheduled time to `when`, if it still waits; its state gets the message.

    Returns:
        whether it was this call that did it. False: it moved on (promoted, started, cancelled or deleted).
    """
    transition_id = uuid4()
    call = _calls.promote(flow_run_id, when, transition_id, message)
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

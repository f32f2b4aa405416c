"""Fill once a run has really ended.

The ``on_cancellation`` hook runs while the server still says Cancelling and holds the slot. What is promoted then
finds no slot and bounces for 30 s. So wait for the final state first.

Under a worker the hook runs in a process of its own, and the server says Cancelled only after that process has ended:
to wait for it there would be to wait for oneself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from ordered_queue import _calls
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, malformed
from ordered_queue._steps.fill import ATTEMPT_SECONDS, Filled, fill
from ordered_queue.errors import RequestFailed

LOOK_EVERY_SECONDS = 0.2
END_WITHIN_SECONDS = 8.0
_FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})


def fill_after_end(
    flow_run_id: UUID,
    deployment_id: UUID,
    promoted_timeout: timedelta,
    filled: Filled,
    is_process_ending: Callable[[], bool],
) -> Steps[bool]:
    """Wait until the run has a final state, or is gone, then fill its deployment's queue.

    Returns:
        False if nothing was filled, because the run's end may be waiting for the end of this process.

    Raises:
        OrderedQueueError: the run had not ended within `END_WITHIN_SECONDS`, or the fill could not finish.
    """
    moment = yield Sleep(0)
    deadline = moment.elapsed_seconds + END_WITHIN_SECONDS
    call = _calls.read_run(flow_run_id)
    patience = Patience(ATTEMPT_SECONDS, END_WITHIN_SECONDS, deadline_seconds=deadline)
    while True:
        # Asked before the state is: a process that sets the final state itself, as its last act, has set it by then.
        is_ending = is_process_ending()
        try:
            answer = yield from ask(call, patience)
        except RequestFailed as error:
            if error.status != 404:
                raise
            break
        try:
            if answer.body["state"]["type"] in _FINAL:
                break
        except (KeyError, TypeError) as error:
            raise malformed(call, answer, error) from error
        if is_ending:
            return False
        if answer.elapsed_seconds + LOOK_EVERY_SECONDS > deadline:
            raise RequestFailed(call.what, answer.status, "it was told to end, but has not yet")
        yield Sleep(LOOK_EVERY_SECONDS)
    yield from fill(deployment_id, None, promoted_timeout, filled)
    return True

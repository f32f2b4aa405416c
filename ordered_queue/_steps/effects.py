"""What a step may ask of its driver, and how one request is asked until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue._calls import PAGE, Call
from ordered_queue.errors import RequestFailed


@dataclass(frozen=True)
class Send:
    """Send a request once and wait at most `timeout_seconds` for the answer."""

    call: Call
    timeout_seconds: float


@dataclass(frozen=True)
class Sleep:
    """Wait; with 0 seconds, only tell the time."""

    seconds: float


@dataclass(frozen=True)
class Answer:
    """What came of an effect.

    Attributes:
        now: the server's time (the local clock, corrected where it is off by more than a few seconds).
        elapsed_seconds: since the driver began, by a clock that never goes back.
        status: HTTP status; 0 when no answer came.
        body: the decoded JSON; None when there was none.
        reason: why there is no usable answer.
        retry_after_seconds: what the server asked for, if it did.
        server: the API's address, to remember by what was found out about it.
    """

    now: datetime
    elapsed_seconds: float
    status: int = 0
    body: Any = None
    reason: str = ""
    retry_after_seconds: float | None = None
    server: str = ""


Effect: TypeAlias = Send | Sleep
T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Answer, T]


@dataclass(frozen=True)
class Patience:
    """How long one request is asked for.

    Attributes:
        attempt_seconds: how long one attempt may take.
        total_seconds: no attempt begins later than this after the first; see also `deadline_seconds`.
        most_attempts: how many attempts at most.
        deadline_seconds: no attempt begins or ends after this much of the driver's time.
    """

    attempt_seconds: float
    total_seconds: float
    most_attempts: int = 1_000_000
    deadline_seconds: float = float("inf")


RETRIED = frozenset({0, 408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed. Each of our requests may be sent twice: reads, creations with an
idempotency key, state changes with a transition id."""

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0


def ask(call: Call, patience: Patience) -> Steps[Answer]:
    """Send a request until it is answered.

    Returns:
        an answer of status 2xx with a decoded body.

    Raises:
        RequestFailed: the answer was final, or patience ran out.
    """
    moment = yield Sleep(0)
    give_up_at = min(moment.elapsed_seconds + patience.total_seconds, patience.deadline_seconds)
    pause = FIRST_PAUSE_SECONDS
    attempt = 0
    while True:
        attempt += 1
        timeout = min(patience.attempt_seconds, max(0.1, patience.deadline_seconds - moment.elapsed_seconds))
        moment = yield Send(call, timeout)
        if 200 <= moment.status < 300 and not moment.reason:
            return moment
        if moment.status not in RETRIED or attempt >= patience.most_attempts:
            break
        # The server's own wish comes first; a lost answer may have been a committed write, so ask again soon.
        wait = max(pause, moment.retry_after_seconds or 0.0)
        if moment.elapsed_seconds + wait > give_up_at:
            break
        moment = yield Sleep(wait)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
    raise RequestFailed(call.what, moment.status, moment.reason or f"the server answered {moment.status}")


def ask_for_runs(call: Call, patience: Patience) -> Steps[list[FlowRun]]:
    """Ask for flow runs.

    Raises:
        RequestFailed: also when the answer is no list of flow runs.
    """
    answer = yield from ask(call, patience)
    try:
        return [FlowRun.model_validate(item) for item in answer.body]
    except (TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error


def ask_for_pages(
    call_at: Callable[[int], Call], patience: Patience, most_pages: int
) -> Steps[tuple[list[FlowRun], bool]]:
    """Ask for full pages of flow runs, by offset, until one is not full; the runs, and whether that was all.

    Raises:
        RequestFailed: a page could not be had.
    """
    runs: list[FlowRun] = []
    for _ in range(most_pages):
        page = yield from ask_for_runs(call_at(len(runs)), patience)
        runs += page
        if len(page) < PAGE:
            return runs, True
    return runs, False


def read_deployment(call: Call, patience: Patience) -> Steps[tuple[DeploymentResponse, Answer]]:
    """Ask for a deployment; with it comes the answer that carried it, and so the time.

    Raises:
        RequestFailed: also when the answer is no deployment.
    """
    answer = yield from ask(call, patience)
    try:
        return DeploymentResponse.model_validate(answer.body), answer
    except (TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error


def malformed(call: Call, answer: Answer, error: Exception) -> RequestFailed:
    """The error for an answer that is not what the API promises."""
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return RequestFailed(call.what, answer.status, f"the answer is not what Prefect's API promises ({first_line})")


def as_uuid(call: Call, answer: Answer, value: object) -> UUID:
    """The id in an answer."""
    try:
        return UUID(str(value))
    except ValueError as error:
        raise malformed(call, answer, error) from error

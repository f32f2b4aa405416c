"""The two drivers of steps: one for PrefectClient, one for SyncPrefectClient.

They send what a step asks for, once, with a time limit; the steps retry within a bound of their own (``effects.ask``).
"""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, cast

import anyio
import httpx
from prefect.client.orchestration import PrefectClient, SyncPrefectClient

from ordered_queue._attempt import TRACE_EXTENSION, TurnedAway, trace_async, trace_sync, without_client_retries
from ordered_queue._calls import Call
from ordered_queue._secrets import without_secrets
from ordered_queue._steps.effects import Answer, Send, Steps, T

CLOCK_TOLERANCE = timedelta(seconds=3)
"""A difference to the server's ``Date`` header below this is not corrected: the header counts whole seconds and is up
to 2 s behind."""

CONNECT_SECONDS = 1.0
"""How long to wait for a connection, beside an attempt's own time."""

LONGEST_REASON = 500


async def drive(client: PrefectClient, steps: Steps[T]) -> T:
    """Run steps with an async client and return what they return.

    Raises:
        OrderedQueueError: what the steps raise.
    """
    watch = _Watch(str(client.api_url))
    with without_client_retries():
        answer: Answer | None = None
        while True:
            try:
                effect = next(steps) if answer is None else steps.send(answer)
            except StopIteration as stop:
                return cast("T", stop.value)
            if isinstance(effect, Send):
                try:
                    response = await client.request(**_arguments(effect), extensions={TRACE_EXTENSION: trace_async})
                    answer = watch.answer(response)
                except (httpx.HTTPError, httpx.InvalidURL, TurnedAway) as error:
                    answer = watch.failure(error)
            else:
                if effect.seconds:
                    await anyio.sleep(effect.seconds)
                answer = watch.moment()


def drive_sync(client: SyncPrefectClient, steps: Steps[T]) -> T:
    """Run steps with a sync client and return what they return.

    Raises:
        OrderedQueueError: what the steps raise.
    """
    watch = _Watch(str(client.api_url))
    with without_client_retries():
        answer: Answer | None = None
        while True:
            try:
                effect = next(steps) if answer is None else steps.send(answer)
            except StopIteration as stop:
                return cast("T", stop.value)
            if isinstance(effect, Send):
                try:
                    response = client.request(**_arguments(effect), extensions={TRACE_EXTENSION: trace_sync})
                    answer = watch.answer(response)
                except (httpx.HTTPError, httpx.InvalidURL, TurnedAway) as error:
                    answer = watch.failure(error)
            else:
                if effect.seconds:
                    time.sleep(effect.seconds)
                answer = watch.moment()


def _arguments(effect: Send) -> dict[str, Any]:
    call: Call = effect.call
    connect = min(CONNECT_SECONDS, effect.timeout_seconds)
    arguments: dict[str, Any] = {
        "method": call.method,
        "path": call.path,
        "timeout": httpx.Timeout(effect.timeout_seconds, connect=connect, pool=connect),
    }
    if call.json is not None:
        arguments["json"] = call.json
    return arguments


class _Watch:
    """Turns responses into answers, and keeps the time: the server's for decisions, a steady one for bounds."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._started = time.monotonic()
        self._offset = timedelta(0)

    def moment(self) -> Answer:
        return self._answer()

    def answer(self, response: httpx.Response) -> Answer:
        self._set_clock(response)
        try:
            body = response.json() if response.content else None
        except (json.JSONDecodeError, UnicodeDecodeError):
            return self._answer(status=response.status_code, reason=f"the answer ({response.status_code}) is not JSON")
        return self._answer(status=response.status_code, body=body)

    def failure(self, error: httpx.HTTPError | httpx.InvalidURL | TurnedAway) -> Answer:
        if isinstance(error, TurnedAway):
            return self._answer(
                status=error.status,
                reason=f"the server answered {error.status}",
                retry_after_seconds=_retry_after(error.headers.get("Retry-After", "")),
            )
        if isinstance(error, httpx.HTTPStatusError):
            response = error.response
            self._set_clock(response)
            return self._answer(
                status=response.status_code,
                reason=f"the server answered {response.status_code} {_detail(response)}".rstrip(),
                retry_after_seconds=_retry_after(response.headers.get("Retry-After", "")),
            )
        # The exception's text may be empty (a time-out), and holds the header that cannot be sent.
        text = without_secrets(str(error))
        return self._answer(reason=f"no answer ({type(error).__name__}{': ' if text else ''}{text})")

    def _answer(self, **known: Any) -> Answer:
        return Answer(
            now=datetime.now(timezone.utc) + self._offset,
            elapsed_seconds=time.monotonic() - self._started,
            server=self._server,
            **known,
        )

    def _set_clock(self, response: httpx.Response) -> None:
        try:
            server_time = parsedate_to_datetime(response.headers["Date"])
        except (KeyError, TypeError, ValueError):
            return
        if server_time.tzinfo is None:
            return
        difference = server_time - datetime.now(timezone.utc)
        self._offset = difference if abs(difference) > CLOCK_TOLERANCE else timedelta(0)


def _detail(response: httpx.Response) -> str:
    """What the server says is wrong, short: FastAPI's ``detail`` or Prefect's ``exception_message``."""
    try:
        body = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return ""
    if not isinstance(body, dict):
        return ""
    said = cast("dict[str, Any]", body)
    detail = said.get("exception_detail") or said.get("detail") or said.get("exception_message") or ""
    if isinstance(detail, list):
        problems = cast("list[Any]", detail)
        detail = "; ".join(_one_problem(problem) for problem in problems)
    return f"({str(detail)[:LONGEST_REASON]})" if detail else ""


def _one_problem(problem: Any) -> str:
    if not isinstance(problem, dict):
        return str(problem)
    said = cast("dict[str, Any]", problem)
    where = ".".join(str(part) for part in said.get("loc", ()))
    return f"{where}: {said.get('msg', '')}"


def _retry_after(value: str) -> float | None:
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds()) if when.tzinfo else None

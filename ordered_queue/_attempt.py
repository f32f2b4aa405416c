"""One attempt at a request: what keeps Prefect's client from retrying by itself.

Prefect's client retries five times with back-off, over a minute against a dead server. Inside a flow's end that is
too long, and a step wants to see each answer. Two things are needed:

- ``PREFECT_CLIENT_MAX_RETRIES`` of 0 ends the retries after errors of the connection. After an answer of 408, 429, 502
  or 503 the client still sleeps first, for as long as ``Retry-After`` says, and then gives the answer; with the header
  ``Prefect-Maintenance`` it goes on for ever, whatever the setting;
- so such an answer is turned into an exception as soon as its headers are there, through httpcore's trace extension.

Source: ``PrefectHttpxAsyncClient._send_with_retry``, Prefect 3.7.6 and 3.9.1; https://www.encode.io/httpcore/extensions/.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import httpx
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, PREFECT_CLIENT_RETRY_EXTRA_CODES, Settings

TRACE_EXTENSION = "trace"

SLEPT_ON = frozenset({408, 429, 502, 503})
"""Statuses after which Prefect's client sleeps whatever its settings say."""


class TurnedAway(Exception):
    """The server told us to come again later.

    Attributes:
        status: HTTP status.
        headers: of the answer.
    """

    def __init__(self, status: int, headers: httpx.Headers) -> None:
        self.status = status
        self.headers = headers
        super().__init__(f"the server answered {status}")


async def trace_async(event_name: str, info: dict[str, Any]) -> None:
    """httpcore's trace extension for an async client.

    Raises:
        TurnedAway: these are the headers of an answer that Prefect's client would sleep on.
    """
    trace_sync(event_name, info)


def trace_sync(event_name: str, info: dict[str, Any]) -> None:
    """httpcore's trace extension for a sync client.

    Raises:
        TurnedAway: these are the headers of an answer that Prefect's client would sleep on.
    """
    if not event_name.endswith(".receive_response_headers.complete"):
        return
    # (version, status, reason, headers, …) for HTTP/1.1, (status, headers) for HTTP/2.
    fields = cast("tuple[object, ...]", info["return_value"])
    status = next(field for field in fields if isinstance(field, int))
    if status in SLEPT_ON:
        headers = next(cast("list[tuple[bytes, bytes]]", field) for field in fields if isinstance(field, list))
        raise TurnedAway(status, httpx.Headers(headers))


NO_RETRIES: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: 0, PREFECT_CLIENT_RETRY_EXTRA_CODES: set[int]()}

_last: tuple[Settings, Settings] | None = None


@contextmanager
def without_client_retries() -> Generator[None, None, None]:
    """Switch the retries of Prefect's client off for what runs inside; other tasks and threads keep theirs.

    Copying the settings takes 24 ms, a third of a whole fill, so the last copy is kept.
    """
    global _last
    context = get_settings_context()
    last = _last
    if last is None or last[0] is not context.settings:
        last = (context.settings, context.settings.copy_with_update(updates=NO_RETRIES))
        _last = last
    with SettingsContext(profile=context.profile, settings=last[1]):
        yield

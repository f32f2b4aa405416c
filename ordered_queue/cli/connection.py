"""The Prefect server that the user means."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import get_current_settings

from ordered_queue import _calls
from ordered_queue._drive import drive_sync
from ordered_queue._steps.effects import Patience, ask
from ordered_queue.cli.failures import CommandFailed
from ordered_queue.errors import RequestFailed

FIRST_ANSWER = Patience(attempt_seconds=5, total_seconds=5, most_attempts=4)
"""A human should not wait out the whole patience of a queue's requests for a server that is not there."""

HOPELESS = (0, 401, 403)


@contextmanager
def connected() -> Generator[SyncPrefectClient, None, None]:
    """A client of the server that PREFECT_API_URL or the active profile names, which was seen to answer.

    Raises:
        CommandFailed: none is named. Prefect would start a server for this one command, and the queue would be gone
            with it.
        RequestFailed: it does not answer, or lets us not in.
    """
    url = get_current_settings().api.url
    if not url:
        raise CommandFailed(
            "PREFECT_API_URL is not set, so there is no server to hold the queue. Set it to the API of your Prefect "
            "server, as in PREFECT_API_URL=http://127.0.0.1:4200/api, or choose a profile that has one with "
            "`prefect profile use`."
        )
    if not _is_usable(url):
        raise CommandFailed("PREFECT_API_URL is not a valid http or https URL. Correct it.")
    with _client() as client:
        try:
            drive_sync(client, ask(_calls.server_version(), FIRST_ANSWER))
        except RequestFailed as error:
            # Anything else is an answer; whether it stops the command is for the command's own requests to find out.
            if error.status in HOPELESS:
                raise
        yield client


def _client() -> SyncPrefectClient:
    try:
        return get_client(sync_client=True)
    except UnicodeEncodeError:
        raise CommandFailed(
            "PREFECT_API_KEY or PREFECT_API_AUTH_STRING holds a character that no HTTP header can hold. Correct it."
        ) from None


def _is_usable(url: str) -> bool:
    """Whether requests can be sent there at all. Not told apart further: the parts may hold a password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)

"""What goes wrong with a command, in one line for a human, without any credentials.

    CommandFailed           exit code 1
    └── Misused             exit code 2: the command cannot have been meant so

These never leave the command line; what the library raises is in ``ordered_queue.errors``.
"""

from __future__ import annotations

import httpx
from prefect.settings import get_current_settings

from ordered_queue._secrets import without_secrets
from ordered_queue.errors import OrderedQueueError, RequestFailed

GONE = " not found"
"""In what Prefect's API says of a deployment or run that it does not have: ``Deployment not found``. Of a path that it
does not have it says ``Not Found``, as other web servers do."""


class CommandFailed(Exception):
    """A command could not do what was asked; the message names the thing and the next action."""

    exit_code = 1

    @classmethod
    def of(cls, error: CommandFailed | OrderedQueueError | OSError) -> CommandFailed:
        """The error as a command tells it."""
        if isinstance(error, CommandFailed):
            return error
        if isinstance(error, RequestFailed):
            return cls(f"{error}{advice_on(error)}")
        if isinstance(error, OSError) and error.filename is not None:
            return cls(f"{error.filename}: {error.strerror}.")
        return cls(str(error))


class Misused(CommandFailed):
    """The arguments make no sense together, or name a file that is not there."""

    exit_code = 2


def advice_on(error: RequestFailed) -> str:
    """Where the request went and what to do about its failure; starts with what ends the sentence before it."""
    if error.status == 0:
        return (
            f" from {api_address()}. Check that the server is running and that PREFECT_API_URL, or the active Prefect "
            "profile, names it."
        )
    if error.status in (401, 403):
        return f" from {api_address()}. Check PREFECT_API_KEY, or PREFECT_API_AUTH_STRING of a server of your own."
    if error.status == 404 and GONE in error.reason:
        return (
            ". It was deleted while this command ran; with a deployment go the runs that waited in it. "
            "`prefect deployment ls` lists what there is."
        )
    # Some other web server, then, or Prefect's UI.
    if error.status in (200, 404, 405):
        return f" from {api_address()}. Check that PREFECT_API_URL is the address of the API; it mostly ends in /api."
    return "."


def api_address() -> str:
    """The URL of the Prefect API, without user, password and query."""
    url = get_current_settings().api.url or ""
    try:
        bare = httpx.URL(url).copy_with(username=None, password=None, query=None, fragment=None)
    except httpx.InvalidURL:
        return "the server"
    return str(bare)


def in_one_line(message: str) -> str:
    """A message for standard error: one line, nothing that a terminal would obey, no credentials."""
    return printable(" ".join(without_secrets(message).splitlines()))


def printable(text: str) -> str:
    """The text with a mark in the place of each character that would steer a terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)

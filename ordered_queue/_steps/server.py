"""Which Prefect servers the queue may stand on.

A run that `park` created proves it: it came through the bulk route, which is as young as the oldest server supported.
Runs tagged by hand prove nothing, so the server is asked, once for each address in a process.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import InvalidVersion, Version
from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask
from ordered_queue.errors import ServerTooOld
from ordered_queue.submission import VERSION_LABEL

OLDEST_SERVER = "3.6.16"
"""The oldest Prefect server that promotion and parking work on (docs/decisions/0006-oldest-server.md)."""

_known_good: set[str] = set()


def require_supported_server(runs: Sequence[FlowRun], patience: Patience) -> Steps[None]:
    """Raise unless the server is known to be young enough to promote these runs on.

    Raises:
        ServerTooOld: it is not.
    """
    if all(VERSION_LABEL in run.labels for run in runs):
        return
    moment = yield Sleep(0)
    if moment.server and moment.server in _known_good:
        return
    answer = yield from ask(_calls.server_version(), patience)
    check_version(str(answer.body))
    _known_good.add(answer.server)


def check_version(version: str) -> None:
    """Raise if a server of this version is too old.

    Raises:
        ServerTooOld: it is. A version that cannot be read (a development build) passes.
    """
    try:
        is_too_old = Version(version) < Version(OLDEST_SERVER)
    except InvalidVersion:
        return
    if is_too_old:
        raise ServerTooOld(version, OLDEST_SERVER)

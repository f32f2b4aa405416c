"""Which Prefect servers the queue may stand on.

Before 3.7.6 the server marks a run Late that is Late already, so two promoters would both believe that they promoted
it.

`park` asks for the version before it creates anything, so a run with its label proves a server that is young enough,
and promoting it costs no further request. Runs tagged by hand prove nothing: the server is asked, once for each
address in a process.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import InvalidVersion, Version
from prefect.client.schemas.objects import FlowRun

from ordered_queue import _calls
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask
from ordered_queue.errors import ServerTooOld
from ordered_queue.submission import VERSION_LABEL

OLDEST_SERVER = "3.7.6"
"""Source: rule ``EnsureOnlyScheduledFlowsMarkedLate``; see docs/decisions/0006-oldest-server.md."""

_known_good: set[str] = set()


def require_server_for(runs: Sequence[FlowRun], patience: Patience) -> Steps[None]:
    """Raise unless the server is known to be young enough to promote these runs on.

    Raises:
        ServerTooOld: it is not.
    """
    if not all(VERSION_LABEL in run.labels for run in runs):
        yield from require_server(patience)


def require_server(patience: Patience) -> Steps[None]:
    """Raise unless the server is young enough.

    Raises:
        ServerTooOld: it is not.
    """
    moment = yield Sleep(0)
    if moment.server in _known_good:
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

"""Which requests were made: by one client of ours, or by everybody as the server's own access log has it."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

OWN = "by=bench"
"""In the query of each request by which a measurement looks on; such a request is not counted."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMED = re.compile(r"(/deployments/name|/work_pools)/(?:(?<=/name/).+|[^/]+)")
_ACCESS = re.compile(r'"(?P<method>[A-Z]+) (?P<path>/\S*) HTTP/[\d.]+" \d{3}')


def requests_in(log: str) -> Counter[str]:
    """The API requests in the text of an access log, by method and path with ids left out; ours are not counted."""
    return Counter(
        f"{found['method']} {kind_of_path(found['path'])}"
        for found in _ACCESS.finditer(log)
        if found["path"].startswith("/api") and OWN not in found["path"]
    )


def kind_of_path(path: str) -> str:
    """A path without its query, and ``{id}`` and ``{name}`` for what is one."""
    return _NAMED.sub(r"\1/{name}", _UUID.sub("{id}", path.partition("?")[0]))


@dataclass(frozen=True)
class Exchange:
    """A request and its answer.

    Attributes:
        kind: which request of a fill it is.
        milliseconds: from sending it to having read the answer.
        sent: bytes of its body.
        received: bytes of the answer's body, as they came over the wire.
        body: what was sent, as JSON; None for none.
    """

    kind: str
    milliseconds: float
    sent: int
    received: int
    body: Any


def kind_of(method: str, path: str, body: Any) -> str:
    """Which request of a fill this is, by what it asks for."""
    if path.endswith("/set_state"):
        return "promote"
    if not path.endswith("/flow_runs/filter"):
        return "deployment" if "/deployments/" in path else f"{method} {kind_of_path(path)}"
    asked = (body or {}).get("flow_runs") or {}
    times = asked.get("next_scheduled_start_time") or {}
    if "before_" in times:
        return "due"
    return "head" if "after_" in times else "active"


@dataclass
class Recorder:
    """Records what a sync client sends and receives; give `hooks` to it as its event hooks."""

    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def hooks(self) -> dict[str, Any]:
        return {"request": [self._sent], "response": [self._received]}

    def take(self) -> list[Exchange]:
        """What was recorded since the last time."""
        taken, self.exchanges = self.exchanges, []
        return taken

    def _sent(self, request: httpx.Request) -> None:
        request.extensions["bench_sent"] = time.perf_counter()

    def _received(self, response: httpx.Response) -> None:
        response.read()
        request = response.request
        if OWN in str(request.url):
            return
        milliseconds = (time.perf_counter() - request.extensions["bench_sent"]) * 1000
        body = json.loads(request.content) if request.content else None
        kind = kind_of(request.method, request.url.path, body)
        size = response.num_bytes_downloaded
        self.exchanges.append(Exchange(kind, milliseconds, len(request.content), size, body))


def by_kind(exchanges: Iterable[Exchange]) -> dict[str, list[float]]:
    """Milliseconds of each kind of request."""
    kinds: dict[str, list[float]] = {}
    for exchange in exchanges:
        kinds.setdefault(exchange.kind, []).append(round(exchange.milliseconds, 2))
    return kinds

"""The cost of being there: import, memory, a hook at a flow's end, a watcher that has nothing to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient

from bench.environment import ROOT
from bench.pollers import watched
from bench.records import Record
from bench.servers import SQLITE, LogWindow, database, opened, served
from bench.traffic import OWN, requests_in
from ordered_queue import park_sync

NAME = "cost"
WHAT = "cost of being there: import time, memory, a hook at a flow's end, an idle watcher"
VARIANTS = ("import", "hook", "watcher")

SAMPLES = {"trial": 2, "short": 5, "full": 30}
# The watcher sweeps each minute, and at its start: a second more than so many minutes.
WATCH_SECONDS = {"trial": 15, "short": 61, "full": 601}

BASELINES = {
    "in a script": "from prefect import flow",
    "in a flow's process": "import prefect.flow_engine, prefect.runner, prefect.workers.process",
}

# Time and memory that one import takes after another, in a new process.
IMPORT_SCRIPT = """
import json, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * {page}
{baseline}
before, begun = resident(), time.perf_counter()
{imported}
print(json.dumps([(time.perf_counter() - begun) * 1000, (resident() - before) / 1e6, resident() / 1e6]))
"""

# What a flow's process does at the end of a run: nothing of ours has made a request in it yet.
HOOK_SCRIPT = """
import json, sys, time
from prefect import flow
from prefect.client.orchestration import get_client
import prefect.flow_engine
from ordered_queue import hand_over_on_end
with get_client(sync_client=True) as client:
    run = client.read_flow_run(sys.argv[1])
begun = time.perf_counter()
{call}
print(json.dumps([(time.perf_counter() - begun) * 1000]))
"""
HOOK_CALL = "hand_over_on_end(flow(lambda: None, name='f'), run, run.state)"


def measure(variants: Sequence[str], size: str, folder: Path) -> Iterator[Record]:
    """Measure the variants in turn."""
    for variant in variants:
        yield from MEASURED[variant](size, folder)


def _import(size: str, folder: Path) -> Iterator[Record]:
    for where, baseline in BASELINES.items():
        taken: list[list[float]] = []
        for _ in range(SAMPLES[size] + 1):
            values = {"baseline": baseline, "imported": "import ordered_queue", "page": os.sysconf("SC_PAGE_SIZE")}
            taken.append(_output(IMPORT_SCRIPT.format(**values)))
        # The first one compiled and filled the file cache.
        milliseconds, megabytes, whole = zip(*taken[1:], strict=True)
        figures = {"milliseconds": milliseconds, "megabytes": megabytes, "whole_megabytes": whole}
        yield Record(NAME, "import", where, {"after": baseline, **_rounded(figures)})


def _hook(size: str, folder: Path) -> Iterator[Record]:
    with database(SQLITE, folder, "hook") as on, served(on) as server, opened() as client:
        cases: dict[str, Callable[[], UUID]] = {
            "nothing waits": lambda: _ended_run(client, waiting=0),
            "one is promoted": lambda: _ended_run(client, waiting=2),
        }
        taken: dict[str, list[float]] = {case: [] for case in cases}
        for _ in range(SAMPLES[size]):
            for case, make in cases.items():
                taken[case] += _output(HOOK_SCRIPT.format(call=HOOK_CALL), str(make()), env=server.env)
    for case, milliseconds in taken.items():
        yield Record(NAME, "hook", case, _rounded({"milliseconds": milliseconds}))


def _ended_run(client: SyncPrefectClient, waiting: int) -> UUID:
    """A run that has ended and handed nothing over yet; behind it so many wait."""
    flow_id = client.request("POST", "/flows/", json={"name": "hook"}).json()["id"]
    body = {"name": f"queue-{time.monotonic_ns()}", "flow_id": flow_id, "concurrency_limit": 1}
    deployment_id = UUID(client.request("POST", "/deployments/", json=body).json()["id"])
    first, *_ = park_sync(deployment_id, [{}] * (1 + waiting), client=client)
    for each in ("PENDING", "RUNNING", "COMPLETED"):
        client.request("POST", f"/flow_runs/{first.flow_run_id}/set_state?{OWN}", json={"state": {"type": each}})
    return first.flow_run_id


def _watcher(size: str, folder: Path) -> Iterator[Record]:
    with database(SQLITE, folder, "watcher") as on, served(on, access_log=True) as server:
        log = server.home / "server.log"
        before = LogWindow.open_at_end(log)
        with watched(server, server.home / "watch.log"):
            started = requests_in(before.read())
            window = LogWindow.open_at_end(log)
            # It looks at once when it starts; what is wanted is what it does ever after.
            time.sleep(WATCH_SECONDS[size])
            seen = requests_in(window.read())
    figures = {
        "seconds": WATCH_SECONDS[size],
        "requests": dict(seen),
        "requests_per_hour": round(sum(seen.values()) * 3600 / WATCH_SECONDS[size]),
        "requests_at_start": dict(started),
    }
    yield Record(NAME, "watcher", "nothing waits", figures)


MEASURED: dict[str, Callable[[str, Path], Iterator[Record]]] = {
    "import": _import,
    "hook": _hook,
    "watcher": _watcher,
}


def _output(script: str, *arguments: str, env: Any = None) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def _rounded(figures: dict[str, Sequence[float]]) -> dict[str, list[float]]:
    return {name: [round(each, 2) for each in samples] for name, samples in figures.items()}

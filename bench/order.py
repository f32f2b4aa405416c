"""Order and idle slots: how a queue goes under each way of running it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.deployments import run_deployment

from bench.figures import RunHistory, order_figures
from bench.pollers import SERVE, missing, polled, watched
from bench.records import Record
from bench.servers import SQLITE, LogWindow, database, opened, served
from bench.traffic import OWN, requests_in
from ordered_queue import park_sync
from ordered_queue.embedded import EmbeddedServer

NAME = "order"
WHAT = "order and idle slots: out-of-order pairs, idle time of a slot, makespan, requests and states per run"

LIMIT = 2
RUN_SECONDS = 3.0
LOOK_SECONDS = 0.25
LONGEST_SECONDS = 900.0

FULL_QUEUE = "full queue"
THIN_QUEUE = "thin queue"


@dataclass(frozen=True)
class Variant:
    """One way of running a queue.

    Attributes:
        flow: of `bench.flows`.
        poller: "serve" or the type of a worker.
        env: how it is set, where not as it comes.
        is_native: submitted by ``run_deployment``, in Prefect's own way.
        has_watcher: our watcher runs beside it.
    """

    flow: str = "in_queue"
    poller: str = SERVE
    env: Mapping[str, str] = field(default_factory=dict)
    is_native: bool = False
    has_watcher: bool = False


EVERY_SECOND = {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}

VARIANTS = {
    "enqueue": Variant(flow="plain", is_native=True),
    "serve-10s": Variant(),
    "serve-1s": Variant(env=EVERY_SECOND),
    "serve-1s-watch": Variant(env=EVERY_SECOND, has_watcher=True),
    "process-worker": Variant(poller="process"),
    "ordered-process": Variant(poller="ordered-process"),
    "hand-over-slot": Variant(flow="hands_over", env=EVERY_SECOND),
}

# How many runs: (full queue, thin queue); 0 leaves the case out.
SIZES: dict[str, dict[str, tuple[int, int]]] = {
    "trial": dict.fromkeys(VARIANTS, (4, 4)),
    "short": {
        "enqueue": (20, 6),
        "serve-10s": (6, 0),
        "serve-1s": (6, 0),
        "serve-1s-watch": (20, 0),
        "process-worker": (6, 0),
        "ordered-process": (20, 6),
        "hand-over-slot": (6, 0),
    },
    "full": dict.fromkeys(VARIANTS, (20, 20)),
}
ROUNDS = {"trial": 1, "short": 1, "full": 3}


def measure(variants: Sequence[str], size: str, folder: Path) -> Iterator[Record]:
    """Run the variants in turn on one server, as many rounds as the size asks for."""
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with database(SQLITE, folder, NAME) as on, served(on, access_log=True) as server, opened() as client:
        for number in range(ROUNDS[size]):
            for name in variants:
                reason = missing(VARIANTS[name].poller)
                if reason is not None:
                    if number == 0:
                        yield Record(NAME, name, FULL_QUEUE, {"skipped": reason})
                    continue
                for case, count in zip((FULL_QUEUE, THIN_QUEUE), SIZES[size][name], strict=True):
                    if count:
                        label = f"{name}-{case.split()[0]}-{number}"
                        done = rounds.setdefault((name, case), [])
                        done.append(_go(VARIANTS[name], case, count, label, server, client))
                        if len(done) == ROUNDS[size]:
                            yield Record(NAME, name, case, {"rounds": done})


def _go(
    variant: Variant, case: str, count: int, label: str, server: EmbeddedServer, client: SyncPrefectClient
) -> dict[str, Any]:
    with ExitStack() as stack:
        log = server.home / f"{label}.log"
        deployment = stack.enter_context(polled(variant.poller, variant.flow, label, LIMIT, server, variant.env, log))
        if variant.has_watcher:
            stack.enter_context(watched(server, server.home / f"{label}-watch.log"))
        window = LogWindow.open_at_end(server.home / "server.log")
        submitted = datetime.now(timezone.utc)
        submit = _submit_natively if variant.is_native else _park
        submission = _all_at_once if case == FULL_QUEUE else _while_one_waits
        run_ids: list[UUID] = []
        for some in submission(count, client, run_ids):
            run_ids += submit(client, deployment, some)
        _wait_for_the_end(client, run_ids)
        requests = requests_in(window.read())
        # Now, since a runner that is stopped sets a run whose hooks still execute from Completed to Cancelled.
        histories = [_history(client, run_id) for run_id in run_ids]
    return {**order_figures(histories, LIMIT, submitted), **_per_run(requests, count)}


def _per_run(requests: Counter[str], runs: int) -> dict[str, Any]:
    return {
        "requests_per_run": round(sum(requests.values()) / runs, 1),
        "requests": dict(requests.most_common()),
    }


def _all_at_once(count: int, client: SyncPrefectClient, run_ids: list[UUID]) -> Generator[int, None, None]:
    """How many runs to submit next: all."""
    yield count


def _while_one_waits(count: int, client: SyncPrefectClient, run_ids: list[UUID]) -> Generator[int, None, None]:
    """How many runs to submit next, so that each but the first few arrives while exactly one waits."""
    yield min(count, LIMIT + 1)
    while len(run_ids) < count:
        if sum(each == "SCHEDULED" for each in _state_types(client, run_ids)) <= 1:
            yield 1
        else:
            time.sleep(LOOK_SECONDS)


def _submit_natively(client: SyncPrefectClient, deployment: str, count: int) -> list[UUID]:
    parameters = {"seconds": RUN_SECONDS}
    return [run_deployment(deployment, parameters=parameters, timeout=0, as_subflow=False).id for _ in range(count)]


def _park(client: SyncPrefectClient, deployment: str, count: int) -> list[UUID]:
    parked = park_sync(deployment, [{"seconds": RUN_SECONDS}] * count, client=client)
    return [run.flow_run_id for run in parked]


def _wait_for_the_end(client: SyncPrefectClient, run_ids: list[UUID]) -> None:
    final = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
    deadline = time.monotonic() + LONGEST_SECONDS
    while not set(_state_types(client, run_ids)) <= final:
        if time.monotonic() > deadline:
            raise RuntimeError(f"The runs did not end within {LONGEST_SECONDS:.0f} s.")
        time.sleep(LOOK_SECONDS * 2)


def _state_types(client: SyncPrefectClient, run_ids: list[UUID]) -> list[str]:
    body = {"flow_runs": {"id": {"any_": [str(run_id) for run_id in run_ids]}}, "limit": 200}
    return [run["state_type"] for run in client.request("POST", f"/flow_runs/filter?{OWN}", json=body).json()]


def _history(client: SyncPrefectClient, run_id: UUID) -> RunHistory:
    answer = client.request("GET", f"/flow_run_states/?flow_run_id={run_id}&{OWN}").json()
    states = [(each["type"], each["name"], datetime.fromisoformat(each["timestamp"])) for each in answer]
    return RunHistory(tuple(sorted(states, key=lambda state: state[2])))

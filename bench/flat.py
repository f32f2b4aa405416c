"""Flat hand-over: what a fill costs behind 10, 1,000 and 100,000 waiting runs, beside 300,000 finished ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient

from bench.figures import summary
from bench.load import Copies, load
from bench.plans import plans_of
from bench.records import Record
from bench.servers import DATABASES, Database, database, opened, served
from bench.traffic import OWN, Exchange, Recorder, by_kind
from ordered_queue import PARKED_TAG, fill_free_slots_sync, park_sync

NAME = "flat"
WHAT = "flat hand-over: requests, bytes, milliseconds and query plans of a fill, by how many runs wait"
VARIANTS = DATABASES

LIMIT = 1
NOTHING = "promotes nobody"
ONE = "promotes one"
PLANS = "plans behind"


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        depths: how many runs wait, a queue each, ascending; 0, the first, is a queue where nothing waits.
        finished: how many finished runs there are, shared out evenly among the queues where something waits.
        samples: of each kind of fill, for each depth.
    """

    depths: tuple[int, ...]
    finished: int
    samples: int


SIZES = {
    "trial": Size((0, 10, 1_000), 3_000, 3),
    "short": Size((0, 10, 1_000, 100_000), 300_000, 10),
    "full": Size((0, 10, 1_000, 100_000), 300_000, 60),
}


@dataclass
class Queue:
    """One deployment under measurement, and the samples taken of it.

    Attributes:
        depth: how many runs wait.
        deployment_id: its id.
        finished_id: a run that has ended, to be copied.
        waiting_id: a run that waits, to be copied; None for an empty queue.
        samples: what each fill sent, by what it did.
    """

    depth: int
    deployment_id: UUID
    finished_id: UUID | None
    waiting_id: UUID | None
    samples: dict[str, list[tuple[float, list[Exchange]]]] = field(default_factory=dict)


def measure(variants: Sequence[str], size: str, folder: Path) -> Iterator[Record]:
    """Fill the databases, then measure on each in turn; the queues on one take turns."""
    with ExitStack() as stack:
        bases = [stack.enter_context(database(kind, folder, f"{NAME}-{kind}")) for kind in variants]
        with ThreadPoolExecutor() as threads:
            prepared = list(threads.map(lambda on: prepare(on, SIZES[size]), bases))
        for on, queues in zip(bases, prepared, strict=True):
            yield from _measure_on(on, queues, SIZES[size].samples)


def _measure_on(on: Database, queues: list[Queue], samples: int) -> Iterator[Record]:
    with served(on):
        recorder = Recorder()
        with opened(recorder) as client, opened() as onlooker:
            _sample(client, onlooker, recorder, queues, samples)
            for queue in queues:
                for did, taken in queue.samples.items():
                    case = f"{queue.depth} waiting, {did}"
                    yield Record(NAME, on.kind, case, {"depth": queue.depth, "did": did, **_figures(taken)})
            for queue in {queue.depth: queue for queue in (queues[1], queues[-1])}.values():
                plans = plans_of(on, partial(_fill, client, recorder, queue, expected=1))
                _go_on(client, onlooker, recorder, queue)
                yield Record(NAME, on.kind, f"{PLANS} {queue.depth}", {"plans": plans, "depth": queue.depth})


def prepare(on: Database, size: Size) -> list[Queue]:
    """Make the queues and put the rows in."""
    with served(on), opened() as client:
        queues = [_make_queue(client, depth) for depth in size.depths]
    full = [queue for queue in queues if queue.depth]
    copies = [Copies(str(queue.finished_id), size.finished // len(full), -1_000) for queue in full]
    copies += [Copies(str(queue.waiting_id), queue.depth - 1, 1) for queue in full]
    load(on, copies)
    return queues


def _make_queue(client: SyncPrefectClient, depth: int) -> Queue:
    flow_id = client.request("POST", "/flows/", json={"name": f"flat-{depth}"}).json()["id"]
    body = {"name": "queue", "flow_id": flow_id, "concurrency_limit": LIMIT, "enforce_parameter_schema": False}
    deployment_id = UUID(client.request("POST", "/deployments/", json=body).json()["id"])
    if depth == 0:
        return Queue(depth, deployment_id, None, None)
    finished, waiting = park_sync(deployment_id, [{"number": 1}, {"number": 2}], client=client)
    _set_states(client, finished.flow_run_id, "PENDING", "RUNNING", "COMPLETED")
    return Queue(depth, deployment_id, finished.flow_run_id, waiting.flow_run_id)


def _sample(
    client: SyncPrefectClient, onlooker: SyncPrefectClient, recorder: Recorder, queues: list[Queue], count: int
) -> None:
    """Take the samples, the queues in turn. The first round warms caches up and is not kept."""
    for number in range(count + 1):
        for queue in queues:
            _turn(client, onlooker, recorder, queue)
        if number == 0:
            for queue in queues:
                queue.samples.clear()


def _turn(client: SyncPrefectClient, onlooker: SyncPrefectClient, recorder: Recorder, queue: Queue) -> None:
    """One fill that promotes, and what comes after it; for an empty queue one fill."""
    _fill(client, recorder, queue, expected=1 if queue.depth else 0)
    if queue.depth:
        _go_on(client, onlooker, recorder, queue)


def _go_on(client: SyncPrefectClient, onlooker: SyncPrefectClient, recorder: Recorder, queue: Queue) -> None:
    """The start of the promoted run, another submission, a fill that finds nothing to do, the run's end."""
    running = _promoted(onlooker, queue)
    _set_states(onlooker, running, "PENDING", "RUNNING")
    # As many wait as before.
    park_sync(queue.deployment_id, [{"number": 3}], client=onlooker)
    _fill(client, recorder, queue, expected=0)
    _set_states(onlooker, running, "COMPLETED")


def _fill(client: SyncPrefectClient, recorder: Recorder, queue: Queue, expected: int) -> list[Exchange]:
    recorder.take()
    begun = time.perf_counter()
    promoted = fill_free_slots_sync(client, queue.deployment_id)
    milliseconds = (time.perf_counter() - begun) * 1000
    if promoted != expected:
        raise RuntimeError(f"A fill behind {queue.depth} waiting runs promoted {promoted}, not {expected}.")
    exchanges = recorder.take()
    queue.samples.setdefault(ONE if expected else NOTHING, []).append((milliseconds, exchanges))
    return exchanges


def _promoted(client: SyncPrefectClient, queue: Queue) -> UUID:
    body = {
        "deployments": {"id": {"any_": [str(queue.deployment_id)]}},
        "flow_runs": {"state": {"name": {"any_": ["Late"]}}, "tags": {"all_": [PARKED_TAG]}},
        "limit": 2,
    }
    (run,) = client.request("POST", f"/flow_runs/filter?{OWN}", json=body).json()
    return UUID(run["id"])


def _set_states(client: SyncPrefectClient, run_id: UUID, *types: str) -> None:
    for each in types:
        answer = client.request("POST", f"/flow_runs/{run_id}/set_state?{OWN}", json={"state": {"type": each}}).json()
        if answer["status"] != "ACCEPT":
            raise RuntimeError(f"Setting {run_id} to {each}: {answer}")


def _figures(samples: list[tuple[float, list[Exchange]]]) -> dict[str, Any]:
    exchanges = [exchange for _, each in samples for exchange in each]
    return {
        "requests": sorted({len(each) for _, each in samples}),
        "sent_bytes": round(sum(exchange.sent for exchange in exchanges) / len(samples)),
        "received_bytes": round(sum(exchange.received for exchange in exchanges) / len(samples)),
        "milliseconds": [round(each, 2) for each, _ in samples],
        "by_request": {kind: summary(times) for kind, times in by_kind(exchanges).items()},
    }

"""Parking: a submission of many runs, this project's way, Prefect's way, and as fast as the bare bulk route goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from prefect.client.orchestration import SyncPrefectClient
from prefect.deployments import run_deployment
from prefect.deployments.flow_runs import arun_deployment

from bench.records import Record
from bench.servers import DATABASES, database, opened, served
from bench.traffic import OWN
from ordered_queue import PARKED_TAG, park_sync, parked_time

NAME = "park"
WHAT = "parking many runs: this, a loop over run_deployment, eight loops at once, the bare bulk route"
VARIANTS = DATABASES

CHUNK = 100
LOOPS = 8

# How many runs a submission has, how many of them a loop creates, how many rounds.
SIZES = {"trial": (100, 20, 1), "short": (1_000, 100, 1), "full": (10_000, 2_000, 3)}


def measure(variants: Sequence[str], size: str, folder: Path) -> Iterator[Record]:
    """Measure on each database in turn; on one server the ways take turns, each round begins with another."""
    count, of_loops, rounds = SIZES[size]
    for kind in variants:
        taken: dict[str, list[dict[str, Any]]] = {}
        with database(kind, folder, f"{NAME}-{kind}") as on, served(on), opened() as client:
            ways = list(WAYS)
            for number in range(rounds):
                for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                    asked = of_loops if "loop" in way else count
                    taken.setdefault(way, []).append(_timed(client, way, asked, number))
        for way, each in taken.items():
            yield Record(NAME, kind, way, {"rounds": each})


def _timed(client: SyncPrefectClient, way: str, count: int, number: int) -> dict[str, Any]:
    """One submission, to a deployment of its own with limit 1 that nobody polls for."""
    flow_name = f"{way.replace(' ', '-')}-{number}"
    flow_id = client.request("POST", "/flows/", json={"name": flow_name}).json()["id"]
    body = {"name": "queue", "flow_id": flow_id, "concurrency_limit": 1, "enforce_parameter_schema": False}
    deployment_id = UUID(client.request("POST", "/deployments/", json=body).json()["id"])
    begun = time.perf_counter()
    WAYS[way](client, deployment_id, f"{flow_name}/queue", count)
    seconds = time.perf_counter() - begun
    asked = {"deployments": {"id": {"any_": [str(deployment_id)]}}}
    there = client.request("POST", f"/flow_runs/count?{OWN}", json=asked).json()
    return {"asked": count, "seconds": round(seconds, 2), "there": there, "runs_per_second": round(there / seconds, 1)}


def _park(client: SyncPrefectClient, deployment_id: UUID, name: str, count: int) -> None:
    park_sync(deployment_id, [{"number": number} for number in range(count)], client=client)


def _one_loop(client: SyncPrefectClient, deployment_id: UUID, name: str, count: int) -> None:
    for number in range(count):
        run_deployment(name, parameters={"number": number}, timeout=0, as_subflow=False)


def _eight_loops(client: SyncPrefectClient, deployment_id: UUID, name: str, count: int) -> None:
    async def loop(first: int) -> None:
        for number in range(first, count, LOOPS):
            await arun_deployment(name, parameters={"number": number}, timeout=0, as_subflow=False)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for first in range(LOOPS):
                tasks.start_soon(loop, first)

    anyio.run(main)


def _bare_bulk(client: SyncPrefectClient, deployment_id: UUID, name: str, count: int) -> None:
    """Create, and believe the answer: nothing is read back, nothing that failed is tried again."""
    base = datetime.now(timezone.utc)
    for first in range(0, count, CHUNK):
        items = [
            {
                "parameters": {"number": number},
                "tags": [PARKED_TAG],
                "state": {
                    "type": "SCHEDULED",
                    "name": "Parked",
                    "state_details": {"scheduled_time": parked_time(base, number).isoformat()},
                },
            }
            for number in range(first, min(first + CHUNK, count))
        ]
        client.request("POST", f"/deployments/{deployment_id}/create_flow_run/bulk", json=items)


WAYS: dict[str, Callable[[SyncPrefectClient, UUID, str, int], None]] = {
    "park": _park,
    "one loop": _one_loop,
    "eight loops": _eight_loops,
    "bare bulk": _bare_bulk,
}

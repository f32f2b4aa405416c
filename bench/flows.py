"""The flows that are measured, and serving one of them with Prefect's own ``serve``.

python bench/flows.py FLOW DEPLOYMENT_NAME LIMIT
"""

from __future__ import annotations

import sys
import time

from prefect import flow, serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

from ordered_queue import hand_over_slot, queued


@flow
def plain(seconds: float = 3.0) -> None:
    """Knows of no queue: what native ENQUEUE is measured with."""
    time.sleep(seconds)


@queued
@flow
def in_queue(seconds: float = 3.0) -> None:
    """Hands its slot over by its state hooks."""
    time.sleep(seconds)


@flow
def hands_over(seconds: float = 3.0) -> None:
    """Hands its slot over as its last act, and in no other way."""
    time.sleep(seconds)
    hand_over_slot()


FLOWS = {"plain": plain, "in_queue": in_queue, "hands_over": hands_over}


def enqueue(limit: int) -> ConcurrencyLimitConfig:
    """A limit with Prefect's own collision strategy ENQUEUE, which is the default too."""
    return ConcurrencyLimitConfig(limit=limit, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)


if __name__ == "__main__":
    flow_name, deployment_name, limit = sys.argv[1:]
    serve(FLOWS[flow_name].to_deployment(name=deployment_name, concurrency_limit=enqueue(int(limit))))

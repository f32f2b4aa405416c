"""What a runner or a worker gets when it polls."""

from datetime import datetime, timedelta, timezone
from uuid import UUID

PREFETCH = timedelta(seconds=10)
"""How far ahead a poller asks. Source: ``PREFECT_RUNNER_POLL_FREQUENCY``'s and the worker's default prefetch."""


def offered_to_runner(*queues) -> list[UUID]:
    """What a runner that serves these deployments gets, in order."""
    body = {"deployment_ids": [str(queue.id) for queue in queues], "scheduled_before": _soon()}
    found = queues[0].client.request("POST", "/deployments/get_scheduled_flow_runs", json=body).json()
    return [UUID(run["id"]) for run in found]


def offered_to_worker(client, pool: str, *work_queues: str) -> list[UUID]:
    """What a worker of the pool gets, in order; of all its work queues if none is named."""
    body = {"scheduled_before": _soon(), "work_queue_names": list(work_queues)}
    found = client.request("POST", f"/work_pools/{pool}/get_scheduled_flow_runs", json=body).json()
    return [UUID(answer["flow_run"]["id"]) for answer in found]


def _soon() -> str:
    return (datetime.now(timezone.utc) + PREFETCH).isoformat()

"""The requests of a doctor, as data: what stands around a queue, and the few things that it puts right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

from ordered_queue._calls import PAGE, Call
from ordered_queue.ordering import PARKED_TAG

_WAITING: dict[str, Any] = {"tags": {"all_": [PARKED_TAG]}, "state": {"type": {"any_": ["SCHEDULED"]}}}


def list_queues_in_use(offset: int) -> Call:
    """The deployments that have a tagged run which has not ended, waiting or not."""
    state = {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]}}
    body = {
        "flow_runs": {"tags": {"all_": [PARKED_TAG]}, "state": state},
        "limit": PAGE,
        "offset": offset,
        "sort": "NAME_ASC",
    }
    return Call("Listing the queues", "POST", "/deployments/filter", body)


def count_waiting(*, with_deployment: bool) -> Call:
    """How many tagged scheduled runs there are; or only those whose deployment is there."""
    body: dict[str, Any] = {"flow_runs": _WAITING}
    if with_deployment:
        body["deployments"] = {"name": {"like_": ""}}
    return Call("Counting the waiting runs", "POST", "/flow_runs/count", body)


def all_waiting_runs(offset: int) -> Call:
    """Tagged scheduled runs of all deployments, those first due first."""
    body = {"flow_runs": _WAITING, "sort": "EXPECTED_START_TIME_ASC", "limit": PAGE, "offset": offset}
    return Call("Reading the waiting runs of all deployments", "POST", "/flow_runs/filter", body)


def parents_of(task_run_ids: Sequence[UUID]) -> Call:
    """The flow runs to which these task runs belong."""
    ids = [str(task_run_id) for task_run_id in task_run_ids]
    body = {"task_runs": {"id": {"any_": ids}}, "limit": PAGE}
    return Call("Reading the parents of waiting runs", "POST", "/flow_runs/filter", body)


def read_work_pool(name: str) -> Call:
    return Call(f"Reading work pool {name!r}", "GET", f"/work_pools/{quote(name, safe='')}")


def read_work_queue(pool: str, name: str) -> Call:
    path = f"/work_pools/{quote(pool, safe='')}/queues/{quote(name, safe='')}"
    return Call(f"Reading work queue {name!r} of work pool {pool!r}", "GET", path)


def list_workers(pool: str) -> Call:
    path = f"/work_pools/{quote(pool, safe='')}/workers/filter"
    return Call(f"Listing the workers of work pool {pool!r}", "POST", path, {"limit": PAGE})


def lower_counter(limit_name: str, slots: int) -> Call:
    """Take slots off a counter, atomically. Send it once: it does not tell a repetition apart."""
    body = {"names": [limit_name], "slots": slots}
    return Call(f"Lowering active_slots of {limit_name!r}", "POST", "/v2/concurrency_limits/decrement", body)


def raise_counter(limit_name: str) -> Call:
    """Take one slot, atomically; 423 if there is none. Send it once: it does not tell a repetition apart."""
    body = {"names": [limit_name], "slots": 1}
    return Call(f"Raising active_slots of {limit_name!r}", "POST", "/v2/concurrency_limits/increment", body)


def set_counter(limit_name: str, active_slots: int) -> Call:
    """Write the counter. Not atomic: for a full one only, into which no run can be entering."""
    path = f"/v2/concurrency_limits/{quote(limit_name, safe='')}"
    return Call(f"Setting active_slots of {limit_name!r}", "PATCH", path, {"active_slots": active_slots})


def read_limit(limit_name: str) -> Call:
    path = f"/v2/concurrency_limits/{quote(limit_name, safe='')}"
    return Call(f"Reading the concurrency limit {limit_name!r}", "GET", path)


def renew_lease(lease_id: UUID, seconds: float) -> Call:
    """The one question that the API answers about a lease: 410 if it is gone; else it now lasts so many seconds."""
    path = f"/v2/concurrency_limits/leases/{lease_id}/renew"
    return Call(f"Asking for lease {lease_id}", "POST", path, {"lease_duration": seconds})


def end_run(flow_run_id: UUID, state_type: str, transition_id: UUID) -> Call:
    """Propose a final state; the server's rules decide, nothing is forced."""
    state = {
        "type": state_type,
        "message": "Ended by `ordered-queue doctor --fix`: the lease of its slot had lapsed.",
        "state_details": {"transition_id": str(transition_id)},
    }
    path = f"/flow_runs/{flow_run_id}/set_state"
    return Call(f"Proposing {state_type} for flow run {flow_run_id}", "POST", path, {"state": state})

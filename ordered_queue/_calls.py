"""The few requests to the Prefect API that a queue is made of, as data.

Each filter has the shape that both databases answer from an index with 100,000 waiting runs
(docs/decisions/0005-filters.md). What users name ends up in bodies, or percent-quoted in a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

from ordered_queue.ordering import BOUNCED_STATE, PARKED_TAG, PROMOTED_STATE, RETRY_STATE

PAGE = 200
"""The most runs that one answer holds. Source: Prefect answers 422 to a larger limit."""

CHUNK = 100
"""The most runs that one request creates. Source: ``BULK_CREATE_LIMIT`` in Prefect's deployments API."""

PROMOTED_MESSAGE = "Promoted by ordered_queue: its slot is free, a runner or worker will take it."
"""How users' alerts tell a promoted run from one that is late in earnest: its beginning is part of the interface."""


UNPARKED_MESSAGE = "Handed back to Prefect by ordered-queue unpark."
"""No such beginning: nobody of ours looks after this run any more, so an alert should tell of it."""


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        what: the request in words, for messages.
        method: HTTP method.
        path: below the API's URL, quoted.
        json: the body; None sends none.
    """

    what: str
    method: Literal["GET", "POST", "PATCH"]
    path: str
    json: Any = None


def server_version() -> Call:
    return Call("Reading the server's version", "GET", "/admin/version")


def read_deployment(deployment_id: UUID) -> Call:
    return Call(f"Reading deployment {deployment_id}", "GET", f"/deployments/{deployment_id}")


def read_deployment_by_name(flow_name: str, deployment_name: str) -> Call:
    path = f"/deployments/name/{quote(flow_name, safe='')}/{quote(deployment_name, safe='')}"
    return Call(f"Reading deployment '{flow_name}/{deployment_name}'", "GET", path)


def list_deployments(offset: int = 0) -> Call:
    return Call(
        "Listing the deployments", "POST", "/deployments/filter", {"limit": PAGE, "offset": offset, "sort": "NAME_ASC"}
    )


def list_flows(flow_ids: Sequence[UUID]) -> Call:
    ids = sorted({str(flow_id) for flow_id in flow_ids})
    return Call("Listing the flows", "POST", "/flows/filter", {"flows": {"id": {"any_": ids}}, "limit": PAGE})


def deployments_by_id(deployment_ids: Sequence[UUID]) -> Call:
    ids = [str(deployment_id) for deployment_id in deployment_ids]
    body = {"deployments": {"id": {"any_": ids}}, "limit": PAGE}
    return Call("Reading the deployments' names", "POST", "/deployments/filter", body)


def list_queues(offset: int = 0, work_pool_name: str | None = None) -> Call:
    """The deployments that have a tagged run in state SCHEDULED: the queues where something may wait.

    Args:
        offset: how many to pass over.
        work_pool_name: only those of a work pool; None is all.
    """
    body: dict[str, Any] = {
        "flow_runs": {"tags": {"all_": [PARKED_TAG]}, "state": {"type": {"any_": ["SCHEDULED"]}}},
        "limit": PAGE,
        "offset": offset,
        "sort": "NAME_ASC",
    }
    if work_pool_name is not None:
        body["work_pools"] = {"name": {"any_": [work_pool_name]}}
    return Call("Listing the queues", "POST", "/deployments/filter", body)


def _runs(what: str, deployment_id: UUID, flow_runs: dict[str, Any], sort: str, limit: int, offset: int = 0) -> Call:
    body = {
        "deployments": {"id": {"any_": [str(deployment_id)]}},
        "flow_runs": flow_runs,
        "sort": sort,
        "limit": limit,
        "offset": offset,
    }
    return Call(f"{what} of deployment {deployment_id}", "POST", "/flow_runs/filter", body)


def waiting_runs(deployment_id: UUID, now: datetime, limit: int, offset: int = 0) -> Call:
    """The head of the queue: tagged runs scheduled at or after `now`, the earliest first."""
    return _runs(
        "Reading the waiting runs",
        deployment_id,
        {"next_scheduled_start_time": {"after_": now.isoformat()}, "tags": {"all_": [PARKED_TAG]}},
        "NEXT_SCHEDULED_START_TIME_ASC",
        limit,
        offset,
    )


def due_runs(deployment_id: UUID, now: datetime, offset: int = 0, after: datetime | None = None) -> Call:
    """Runs scheduled at or before `now` (and at or after `after`), tagged or not: a poller is about to take them."""
    times = {"before_": now.isoformat()}
    if after is not None:
        times["after_"] = after.isoformat()
    return _runs(
        "Reading the due runs",
        deployment_id,
        {"next_scheduled_start_time": times},
        "NEXT_SCHEDULED_START_TIME_ASC",
        PAGE,
        offset,
    )


def active_runs(deployment_id: UUID, offset: int = 0) -> Call:
    """Runs that hold a slot by their state: Running, Pending, Cancelling, or waiting in their process for a retry."""
    state = {
        "operator": "or_",
        "type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]},
        "name": {"any_": [RETRY_STATE]},
    }
    return _runs("Reading the active runs", deployment_id, {"state": state}, "ID_DESC", PAGE, offset)


def bounced_runs(deployment_id: UUID, offset: int = 0) -> Call:
    """Runs that Prefect sent back to wait for a slot, tagged or not, in the order in which they were first due."""
    return _runs(
        "Reading the bounced runs",
        deployment_id,
        {"state": {"name": {"any_": [BOUNCED_STATE]}}},
        "EXPECTED_START_TIME_ASC",
        PAGE,
        offset,
    )


def queue_tail(deployment_id: UUID, after: datetime, before: datetime) -> Call:
    """The tagged run with the latest first scheduled time from `after` to `before`, whatever became of it."""
    times = {"after_": after.isoformat(), "before_": before.isoformat()}
    return _runs(
        "Reading the end of the queue",
        deployment_id,
        {"tags": {"all_": [PARKED_TAG]}, "expected_start_time": times},
        "EXPECTED_START_TIME_DESC",
        1,
    )


def create_runs(deployment_id: UUID, items: Sequence[dict[str, Any]]) -> Call:
    return Call(
        f"Creating {len(items)} runs of deployment {deployment_id}",
        "POST",
        f"/deployments/{deployment_id}/create_flow_run/bulk",
        list(items),
    )


def runs_by_id(flow_run_ids: Sequence[UUID]) -> Call:
    ids = [str(flow_run_id) for flow_run_id in flow_run_ids]
    body = {"flow_runs": {"id": {"any_": ids}}, "limit": PAGE}
    return Call("Reading the runs back", "POST", "/flow_runs/filter", body)


def runs_by_key(deployment_id: UUID, keys: Sequence[str]) -> Call:
    return _runs(
        "Looking for earlier runs of the submission",
        deployment_id,
        {"idempotency_key": {"any_": list(keys)}},
        "ID_DESC",
        PAGE,
    )


def promote(flow_run_id: UUID, when: datetime, transition_id: UUID, message: str = PROMOTED_MESSAGE) -> Call:
    """The atomic step: the server refuses it unless the run is SCHEDULED and not yet Late.

    Source: rule ``EnsureOnlyScheduledFlowsMarkedLate``, which runs while the run's row is locked. The transition
    id makes a repeated request answer with the state that the first one wrote.
    """
    details = {"scheduled_time": when.isoformat(), "transition_id": str(transition_id)}
    state = {"type": "SCHEDULED", "name": PROMOTED_STATE, "message": message, "state_details": details}
    return _set_state("Promoting", flow_run_id, state)


def cancel(flow_run_id: UUID, transition_id: UUID) -> Call:
    """Ask Prefect to cancel a run, as its own UI does; a run that has no process yet is Cancelled at once."""
    state = {
        "type": "CANCELLING",
        "message": "Its submission was cancelled with ordered-queue.",
        "state_details": {"transition_id": str(transition_id)},
    }
    return _set_state("Cancelling", flow_run_id, state)


def _set_state(verb: str, flow_run_id: UUID, state: dict[str, Any]) -> Call:
    return Call(f"{verb} flow run {flow_run_id}", "POST", f"/flow_runs/{flow_run_id}/set_state", {"state": state})


def replace_tags(flow_run_id: UUID, tags: Sequence[str]) -> Call:
    return Call(
        f"Changing the tags of flow run {flow_run_id}", "PATCH", f"/flow_runs/{flow_run_id}", {"tags": list(tags)}
    )


def read_run(flow_run_id: UUID) -> Call:
    return Call(f"Reading flow run {flow_run_id}", "GET", f"/flow_runs/{flow_run_id}")

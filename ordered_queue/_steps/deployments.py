"""Find the deployment that a user means."""

from __future__ import annotations

import difflib
from uuid import UUID

from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls
from ordered_queue._steps.effects import Answer, Patience, Steps, as_uuid, ask, malformed, read_deployment
from ordered_queue.errors import DeploymentNotFound, RequestFailed

PATIENCE = Patience(attempt_seconds=10, total_seconds=30, most_attempts=6)


def find_deployment(
    deployment: str | UUID | DeploymentResponse, patience: Patience = PATIENCE
) -> Steps[tuple[DeploymentResponse, Answer]]:
    """Read the deployment as the server has it now.

    Args:
        deployment: "flow/deployment", an id, or an object (of which the id is taken).
        patience: how long to ask.

    Raises:
        DeploymentNotFound: with the nearest names.
        RequestFailed: the server gave no usable answer.
    """
    if isinstance(deployment, DeploymentResponse):
        deployment = deployment.id
    if isinstance(deployment, str):
        deployment = _parse_id(deployment) or deployment
    if isinstance(deployment, UUID):
        call = _calls.read_deployment(deployment)
    elif "/" in deployment:
        flow_name, deployment_name = deployment.split("/", 1)
        call = _calls.read_deployment_by_name(flow_name, deployment_name)
    else:
        raise DeploymentNotFound(deployment, (yield from nearest_names(deployment, patience)))
    try:
        return (yield from read_deployment(call, patience))
    except RequestFailed as error:
        if error.status != 404:
            raise
    nearest = () if isinstance(deployment, UUID) else (yield from nearest_names(deployment, patience))
    raise DeploymentNotFound(str(deployment), nearest)


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def nearest_names(wanted: str, patience: Patience) -> Steps[tuple[str, ...]]:
    """Up to three names of deployments spelled much like `wanted`, among the server's first 200."""
    call = _calls.list_deployments()
    answer = yield from ask(call, patience)
    try:
        flow_ids = [as_uuid(call, answer, item["flow_id"]) for item in answer.body]
        names = [(str(item["flow_id"]), str(item["name"])) for item in answer.body]
        flows = yield from ask(_calls.list_flows(flow_ids), patience)
        flow_names = {str(item["id"]): str(item["name"]) for item in flows.body}
    except (TypeError, KeyError) as error:
        raise malformed(call, answer, error) from error
    full_names = {f"{flow_names.get(flow_id, '?')}/{name}": name for flow_id, name in names}
    if "/" in wanted:
        return tuple(difflib.get_close_matches(wanted, full_names, n=3, cutoff=0.6))
    near = difflib.get_close_matches(wanted, set(full_names.values()), n=3, cutoff=0.6)
    return tuple(full for full, name in full_names.items() if name in near)[:3]

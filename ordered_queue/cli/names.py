"""Deployments by the names that users know them by."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ordered_queue import _calls
from ordered_queue._steps.effects import Patience, Steps, as_uuid, ask
from ordered_queue.errors import RequestFailed

PATIENCE = Patience(attempt_seconds=5, total_seconds=5, most_attempts=2)


def full_names(deployment_ids: Sequence[UUID]) -> Steps[dict[UUID, str]]:
    """ "flow/deployment" by deployment id, as far as it can be found out: a name is not worth failing for."""
    names: dict[UUID, str] = {}
    for start in range(0, len(deployment_ids), _calls.PAGE):
        try:
            names |= yield from _page(deployment_ids[start : start + _calls.PAGE])
        except (RequestFailed, KeyError, TypeError):
            return names
    return names


def _page(deployment_ids: Sequence[UUID]) -> Steps[dict[UUID, str]]:
    call = _calls.deployments_by_id(deployment_ids)
    answer = yield from ask(call, PATIENCE)
    flow_ids = [as_uuid(call, answer, item["flow_id"]) for item in answer.body]
    flows = yield from ask(_calls.list_flows(flow_ids), PATIENCE)
    flow_names = {str(item["id"]): str(item["name"]) for item in flows.body}
    return {
        as_uuid(call, answer, item["id"]): f"{flow_names[str(item['flow_id'])]}/{item['name']}" for item in answer.body
    }

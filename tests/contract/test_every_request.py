"""Of every request that this package can send: it is bounded, it forces nothing, and it sets no limit."""

import inspect
from datetime import datetime, timezone
from uuid import UUID

import pytest

from ordered_queue import PARKED_TAG, _calls
from ordered_queue._calls import PAGE, Call
from ordered_queue._doctor import calls as doctor_calls
from tests.conftest import ROOT
from tests.fundamentals.papers import table

ID = UUID(int=7)
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ARGUMENTS = {
    "deployment_id": ID,
    "flow_run_id": ID,
    "transition_id": ID,
    "lease_id": ID,
    "flow_name": "flow",
    "deployment_name": "deployment",
    "pool": "pool",
    "name": "name",
    "limit_name": "limit",
    "state_type": "CRASHED",
    "offset": 0,
    "limit": PAGE,
    "slots": 1,
    "active_slots": 1,
    "seconds": 60,
    "now": NOW,
    "after": NOW,
    "before": NOW,
    "when": NOW,
    "with_deployment": False,
    "tags": ["a"],
    "keys": ["a"],
    "items": [{}],
    **{name: [ID] for name in ("flow_ids", "deployment_ids", "flow_run_ids", "task_run_ids")},
}


def every_call():
    """Each function of the two modules that makes a request, called."""
    for module in (_calls, doctor_calls):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ != module.__name__ or name.startswith("_"):
                continue
            needed = [
                parameter.name
                for parameter in inspect.signature(function).parameters.values()
                if parameter.default is parameter.empty
            ]
            yield name, function(**{parameter: ARGUMENTS[parameter] for parameter in needed})


CALLS = dict(every_call())
QUERIES = {name: call for name, call in CALLS.items() if call.path.endswith(("/filter", "/count"))}
ALL_DEPLOYMENTS = {"list_deployments"}
"""For an operator, and for the nearest name to one that is not there: pages of deployments, without a filter."""


def bounds(call: Call) -> set[str]:
    """What keeps the rows that a query may touch from being all there are."""
    body = call.json
    runs = body.get("flow_runs", {})
    state = runs.get("state", {})
    found = {
        "ids": "any_" in runs.get("id", {}) or "any_" in body.get("task_runs", {}).get("id", {}),
        "flows": "any_" in body.get("flows", {}).get("id", {}),
        "deployment": "any_" in body.get("deployments", {}).get("id", {}),
        "keys": "idempotency_key" in runs,
        "time": bool({"next_scheduled_start_time", "expected_start_time"} & set(runs)),
        "state": bool(state.get("type") or state.get("name")),
        "tag": PARKED_TAG in runs.get("tags", {}).get("all_", []),
        "pool": call.path.startswith("/work_pools/"),
    }
    return {name for name, is_there in found.items() if is_there}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_bounded_by_ids_or_by_deployment_and_state_or_time_or_by_tag_and_state(name):
    """Case 34: with millions of rows in the database, none of them reads a table."""
    call = QUERIES[name]
    found = bounds(call)

    assert call.path.endswith("/count") or 1 <= call.json["limit"] <= PAGE
    is_bounded = (
        {"ids", "flows", "pool"} & found
        or ("deployment" in found and ({"time", "state", "keys"} & found or call.path == "/deployments/filter"))
        or {"tag", "state"} <= found
    )
    assert is_bounded or name in ALL_DEPLOYMENTS


@pytest.mark.parametrize("name", CALLS)
def test_no_request_forces_a_state(name):
    """Case 25: every state is proposed, and the server's rules decide."""
    assert not isinstance(CALLS[name].json, dict) or "force" not in CALLS[name].json


def test_no_request_sets_a_limit_and_the_few_that_write_are_these():
    """Case 17: limits are Prefect's to set; what the doctor changes of one is its counter."""
    writes = {name: call for name, call in CALLS.items() if call.method != "GET" and name not in QUERIES}

    assert set(writes) == {
        "create_runs",
        "promote",
        "cancel",
        "replace_tags",
        "lower_counter",
        "raise_counter",
        "set_counter",
        "renew_lease",
        "end_run",
    }
    assert writes["set_counter"].json == {"active_slots": 1}
    assert not any("limit" in call.json for call in writes.values() if isinstance(call.json, dict))


def test_the_table_of_routes_has_each_route_and_no_other():
    """docs/operations.md, for those who have a proxy before their server; an operator needs them all."""
    named = {"name": "{name}", "pool": "{name}", "limit": "{name}", "flow": "{flow}", "deployment": "{deployment}"}

    def route(call):
        parts = [named.get(part, "{id}" if part == str(ID) else part) for part in call.path.split("/")[2:]]
        # `/deployments/name/…`: here `name` is what the route is called.
        path = "/".join(call.path.split("/")[:2] + parts).replace("/deployments/{name}/", "/deployments/name/")
        return f"{call.method} {path}"

    rows = table(ROOT / "docs" / "operations.md", "route")

    assert {row[0].strip("`") for row in rows} == {route(call) for call in CALLS.values()}
    assert all(row[-1] == "x" for row in rows)

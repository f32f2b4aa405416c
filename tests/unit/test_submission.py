from datetime import datetime, timezone

import pytest
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import PARKED_TAG, DeploymentRefused, InvalidRun, RunRequest, parked_time
from ordered_queue.submission import PreparedRun, Preparer, is_cancel_new, refuse_unsuitable, unsendable
from tests.factories import NOW, a_deployment

SCHEMA = {
    "title": "Parameters",
    "type": "object",
    "properties": {"table": {"type": "string"}, "day": {"type": "string", "format": "date-time"}},
    "required": ["table"],
}


def a_preparer(deployment: DeploymentResponse | None = None, key: str = "load") -> Preparer:
    return Preparer(deployment or a_deployment(parameter_openapi_schema=SCHEMA), key, "9.9")


def test_a_row_becomes_a_tagged_labelled_body_with_a_key_of_its_own():
    deployment = a_deployment()

    assert a_preparer(deployment).prepare({"table": "orders"}, 3) == PreparedRun(
        position=3,
        key=f"{deployment.id}/load/3",
        body={
            "parameters": {"table": "orders"},
            "context": {},
            "tags": [PARKED_TAG],
            "idempotency_key": f"{deployment.id}/load/3",
            "labels": {
                "ordered-queue.submission": "load",
                "ordered-queue.position": 3,
                "ordered-queue.version": "9.9",
            },
        },
    )


def test_a_request_keeps_all_that_the_caller_asked_for():
    request = RunRequest(
        {"table": "orders"}, "orders-1", ("big",), "mine", {"cpu": 2}, {"ticket": 7}, {"team": "finance"}
    )

    body = a_preparer().prepare(request, 0).body

    assert body["name"] == "orders-1"
    assert body["tags"] == ["big", PARKED_TAG]
    assert body["idempotency_key"] == "mine"
    assert body["job_variables"] == {"cpu": 2}
    assert body["context"] == {"ticket": 7}
    assert body["labels"]["team"] == "finance"


def test_a_row_is_parked_at_the_time_of_its_position():
    body = a_preparer().prepare({"table": "orders"}, 5).create_body(NOW)

    assert body["state"]["type"] == "SCHEDULED"
    assert body["state"]["name"] == "Parked"
    assert body["state"]["state_details"]["scheduled_time"] == parked_time(NOW, 5).isoformat()


def test_datetimes_travel_as_text():
    when = datetime(2026, 1, 2, tzinfo=timezone.utc)

    assert a_preparer().prepare({"table": "t", "day": when}, 0).body["parameters"]["day"] == when.isoformat()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"table": 7}, "parameter 'table': 7 is not of type 'string'"),
        ({}, "'table' is a required property"),
        ("orders", "it is a str, neither a mapping of parameters nor a RunRequest"),
        ({"table": "a\x00b"}, "holds a NUL character"),
        ({"table": "a", "\x00": 1}, "holds a NUL character"),
        ({"table": "a", "more": [{"x": "\ud800"}]}, "not valid Unicode"),
        ({"table": "a", "rate": float("nan")}, "is nan, which JSON cannot express"),
        ({"table": "a", "thing": object()}, "cannot be sent as JSON"),
        (RunRequest({"table": "a"}, idempotency_key="\x00"), "holds a NUL character"),
    ],
)
def test_a_bad_row_is_refused_with_its_position_and_reason(row, reason):
    with pytest.raises(InvalidRun) as caught:
        a_preparer().prepare(row, 41)

    assert caught.value.position == 41
    assert reason in caught.value.reason
    assert "Nothing was parked" in str(caught.value)


def test_a_backslash_is_no_nul():
    assert unsendable({"path": "C:\\u0000"}) is None


def test_the_same_key_twice_is_refused_and_names_both_rows():
    preparer = a_preparer()
    preparer.prepare(RunRequest({"table": "a"}, idempotency_key="k"), 2)

    with pytest.raises(InvalidRun, match=r"Run 5 .* idempotency key 'k' is also that of run 2"):
        preparer.prepare(RunRequest({"table": "b"}, idempotency_key="k"), 5)


def test_the_deployments_own_parameters_count():
    deployment = a_deployment(parameter_openapi_schema=SCHEMA, parameters={"table": "orders"})

    assert a_preparer(deployment).prepare({}, 0).body["parameters"] == {}


def test_formats_are_left_to_the_flow_as_the_server_leaves_them():
    assert a_preparer().prepare({"table": "a", "day": "yesterday"}, 0)


def test_templates_are_left_to_the_server():
    assert a_preparer().prepare({"table": {"__prefect_kind": "workspace_variable", "variable_name": "t"}}, 0)


def test_parameters_are_not_checked_when_the_deployment_does_not_enforce_its_schema():
    deployment = a_deployment(parameter_openapi_schema=SCHEMA, enforce_parameter_schema=False)

    assert a_preparer(deployment).prepare({"table": 7}, 0)


def test_a_bad_submission_key_is_refused():
    with pytest.raises(ValueError, match=r"submission key .* holds a NUL"):
        a_preparer(key="a\x00")


def test_cancel_new_is_refused_and_says_how_to_change_it():
    deployment = a_deployment(strategy="CANCEL_NEW")

    assert is_cancel_new(deployment)
    with pytest.raises(DeploymentRefused, match=r"CANCEL_NEW.*collision_strategy: ENQUEUE"):
        refuse_unsuitable(deployment)


@pytest.mark.parametrize("strategy", [None, "ENQUEUE"])
def test_enqueue_is_accepted(strategy):
    refuse_unsuitable(a_deployment(strategy=strategy))

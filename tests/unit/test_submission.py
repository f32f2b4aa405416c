from datetime import datetime, timezone

import pytest
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import SignatureMismatchError
from prefect.utilities.callables import parameter_schema, parameters_to_args_kwargs

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


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"table": "a", "tabel": "b"}, "the flow has no parameter 'tabel'; it has table, day. Did you mean 'table'?"),
        ({"tabel": "b"}, "the flow has no parameter 'tabel'; it has table, day. Did you mean 'table'?"),
        ({"table": "a", "zzz": {"__prefect_kind": "json"}}, "the flow has no parameter 'zzz'; it has table, day."),
    ],
)
def test_a_parameter_that_the_flow_does_not_have_is_refused_and_the_nearest_named(row, reason):
    with pytest.raises(InvalidRun) as caught:
        a_preparer().prepare(row, 0)

    assert caught.value.reason == reason


def test_any_parameter_is_refused_when_the_flow_has_none():
    def without(): ...

    deployment = a_deployment(parameter_openapi_schema=parameter_schema(without).model_dump_for_openapi())

    with pytest.raises(InvalidRun, match=r"the flow has no parameter 'table'; it has none\."):
        a_preparer(deployment).prepare({"table": "a"}, 0)


def test_an_unknown_parameter_of_the_deployment_itself_is_refused():
    deployment = a_deployment(parameter_openapi_schema=SCHEMA, parameters={"tabel": "a"})

    with pytest.raises(InvalidRun, match="no parameter 'tabel'"):
        a_preparer(deployment).prepare({"table": "a"}, 0)


def test_what_kwargs_take_goes_under_their_own_name_as_prefect_wants_it():
    def flexible(table: str, **more): ...

    schema = parameter_schema(flexible).model_dump_for_openapi()
    preparer = a_preparer(a_deployment(parameter_openapi_schema=schema))
    sent = {"table": "a", "more": {"day": "monday"}}

    assert preparer.prepare(sent, 0).body["parameters"] == sent
    assert parameters_to_args_kwargs(flexible, sent) == (("a",), {"day": "monday"})
    with pytest.raises(InvalidRun, match="no parameter 'day'; it has table, more"):
        preparer.prepare({"table": "a", "day": "monday"}, 1)
    with pytest.raises(SignatureMismatchError):
        parameters_to_args_kwargs(flexible, {"table": "a", "day": "monday"})


def test_any_parameter_is_accepted_when_the_deployment_was_made_without_a_schema():
    deployment = a_deployment(parameter_openapi_schema={"type": "object", "properties": {}})

    assert a_preparer(deployment).prepare({"table": "a"}, 0)


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

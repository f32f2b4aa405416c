import math
from dataclasses import dataclass
from datetime import datetime, timezone

import pytest
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import SignatureMismatchError
from prefect.utilities.callables import parameter_schema, parameters_to_args_kwargs
from pydantic import BaseModel

from ordered_queue import PARKED_TAG, InvalidRun, RunRequest, parked_time
from ordered_queue.submission import PreparedRun, Preparer
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


@pytest.mark.parametrize(
    ("key", "reason"),
    [("a\x00", "holds a NUL"), ("", "is empty"), ("  ", "is empty"), ("x" * 3_000, "takes 3,000 bytes")],
)
def test_a_bad_submission_key_is_refused(key, reason):
    with pytest.raises(ValueError, match=f"^The submission key .* {reason}") as caught:
        a_preparer(key=key)

    assert len(str(caught.value)) < 1_000


class Options(BaseModel):
    rate: float


@dataclass
class Settings:
    rates: set[float]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "holding",
    [
        lambda bad: Options(rate=bad),
        lambda bad: [Options(rate=bad)],
        lambda bad: Settings({bad}),
        lambda bad: (1.0, bad),
        lambda bad: {1.0, bad},
        lambda bad: {bad: 1},
    ],
    ids=["model", "models", "dataclass", "tuple", "set", "key"],
)
@pytest.mark.parametrize("field", ["parameters", "context", "job_variables"])
def test_a_number_that_json_cannot_express_is_refused_wherever_it_hides(bad, holding, field):
    request = RunRequest(**{"parameters": {"table": "a"}, field: {"table": "a", "more": holding(bad)}})

    with pytest.raises(InvalidRun, match=f"a text or number in it is {bad}, which JSON cannot express"):
        a_preparer(a_deployment()).prepare(request, 0)


@pytest.mark.parametrize("depth", [255, 400, 3_000, 100_000])
def test_what_is_nested_too_deeply_is_refused_by_name(depth):
    value: list[object] = []
    for _ in range(depth):
        value = [value]

    with pytest.raises(InvalidRun, match=r"^Run 41 .*it is nested too deeply, or holds itself\."):
        a_preparer(a_deployment()).prepare({"table": "a", "more": value}, 41)


def test_what_holds_itself_is_refused_by_name():
    value: list[object] = []
    value.append(value)

    with pytest.raises(InvalidRun, match=r"^Run 41 .*it is nested too deeply, or holds itself\."):
        a_preparer(a_deployment()).prepare({"table": "a", "more": value}, 41)


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (RunRequest(idempotency_key="x" * 2_001), "idempotency key"),
        (RunRequest(name="x" * 2_001), "name"),
        (RunRequest(tags=("short", "x" * 2_001)), "tag"),
    ],
)
def test_a_text_that_no_index_holds_is_refused(request_, what):
    with pytest.raises(InvalidRun, match=f"its {what} takes 2,001 bytes; 2,000 are the most"):
        a_preparer(a_deployment()).prepare(request_, 0)


def test_parameters_that_are_too_large_for_the_server_are_refused_with_their_size():
    preparer = Preparer(a_deployment(), "load", "9.9", most_parameter_bytes=1_000)

    assert preparer.prepare({"text": "x" * 989}, 0)
    with pytest.raises(InvalidRun, match=r"Run 1 .* its parameters take 1,001 bytes as JSON; 1,000 are the most"):
        preparer.prepare({"text": "x" * 990}, 1)


@pytest.mark.parametrize(
    "row",
    [
        {"table": ["x" * 1_000_000]},
        {"x" * 1_000_000: 1},
        RunRequest({"table": "a"}, tags="x" * 1_000_000),  # pyright: ignore[reportArgumentType]  # just that is refused
    ],
    ids=["value", "name", "tags"],
)
def test_a_message_about_a_long_value_is_short(row):
    with pytest.raises(InvalidRun) as caught:
        a_preparer().prepare(row, 0)

    assert len(str(caught.value)) < 1_000


def test_a_message_about_a_long_value_still_says_what_is_wrong_with_it():
    with pytest.raises(InvalidRun, match=r"parameter 'table': \['xxx.* \.\.\. xxx.*'\] is not of type 'string'"):
        a_preparer().prepare({"table": ["x" * 1_000_000]}, 0)

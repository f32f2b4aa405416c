import json
from uuid import uuid4

import httpx
import pytest

from ordered_queue import InvalidRun, RunRequest, ServerTooOld, SubmissionIncomplete
from tests.contract.conftest import KEY
from tests.contract.test_fill_on_the_wire import DEPLOYMENT, as_json, body
from tests.factories import FLOW_ID, a_deployment


class Server:
    """The routes that parking needs, over runs kept in a dict. A test breaks one answer at a time."""

    def __init__(self, wire):
        self.runs = {}
        self.times_sent = []
        self.create_faults = []
        wire.get(f"/deployments/{DEPLOYMENT}").respond(json=as_json(a_deployment(1)))
        wire.get("/admin/version").respond(json="3.9.1")
        self.bulk = wire.post(f"/deployments/{DEPLOYMENT}/create_flow_run/bulk").mock(side_effect=self.create)
        wire.post("/flow_runs/filter").mock(side_effect=self.filter)
        wire.post(url__regex=r".*/set_state").respond(404, json={"detail": "gone"})

    def create(self, request):
        items = json.loads(request.content)
        self.times_sent.append([item["state"]["state_details"]["scheduled_time"] for item in items])
        fault = self.create_faults.pop(0) if self.create_faults else None
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, httpx.Response):
            return fault
        results = []
        for index, item in enumerate(items):
            if fault == "locked" or (fault == "odd rows locked" and index % 2):
                results.append({"flow_run_id": None, "status": "FAILED", "error": "database is locked"})
            elif fault == "rolled back":
                results.append({"flow_run_id": str(uuid4()), "status": "CREATED", "error": None})
            else:
                results.append({"flow_run_id": self.keep(item), "status": "CREATED", "error": None})
        if fault == "answer lost":
            raise httpx.ReadTimeout("lost")
        return httpx.Response(200, json={"results": results})

    def keep(self, item):
        for run_id, run in self.runs.items():
            if run["idempotency_key"] == item["idempotency_key"]:
                return run_id
        run_id = str(uuid4())
        when = item["state"]["state_details"]["scheduled_time"]
        self.runs[run_id] = {
            "id": run_id,
            "name": run_id[:8],
            "flow_id": str(FLOW_ID),
            "deployment_id": str(DEPLOYMENT),
            "idempotency_key": item["idempotency_key"],
            "expected_start_time": when,
            "next_scheduled_start_time": when,
            "parameters": item["parameters"],
            "tags": item["tags"],
            "labels": item["labels"],
            "state": item["state"],
        }
        return run_id

    def filter(self, request):
        asked = json.loads(request.content)
        flow_runs = asked["flow_runs"]
        if "id" in flow_runs:
            return httpx.Response(200, json=[self.runs[i] for i in flow_runs["id"]["any_"] if i in self.runs])
        if "idempotency_key" in flow_runs:
            keys = flow_runs["idempotency_key"]["any_"]
            deployment_ids = asked["deployments"]["id"]["any_"]
            found = [run for run in self.runs.values() if run["idempotency_key"] in keys]
            return httpx.Response(200, json=[run for run in found if run["deployment_id"] in deployment_ids])
        return httpx.Response(200, json=[])


@pytest.fixture
def server(wire):
    return Server(wire)


ROWS = [{"number": number} for number in range(6)]


@pytest.mark.parametrize(
    "faults",
    [
        ["locked"] * 5,
        ["odd rows locked"],
        ["odd rows locked", "odd rows locked", "locked"],
        ["rolled back", "rolled back"],
        ["answer lost"],
        [httpx.ConnectError("refused"), httpx.Response(503), httpx.Response(502)],
    ],
    ids=str,
)
def test_what_the_server_fails_to_keep_is_sent_again_with_the_same_keys_and_times(wire, calls, server, faults):
    server.create_faults = list(faults)

    runs = calls.park(DEPLOYMENT, ROWS, submission_key="s")

    assert len(server.runs) == 6
    assert [run.position for run in runs] == list(range(6))
    assert [str(run.flow_run_id) for run in runs] == sorted(
        server.runs, key=lambda run_id: server.runs[run_id]["expected_start_time"]
    )
    assert {time for times in server.times_sent for time in times} == set(server.times_sent[0])


def test_a_submission_that_gets_nowhere_says_how_long_a_prefix_is_parked(wire, calls, server, monkeypatch):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_ORDERED_QUEUE_STALL_TIMEOUT", "PT1S")
    server.create_faults = [None, *["odd rows locked"] * 1, *[httpx.ConnectError("refused")] * 100]

    with pytest.raises(SubmissionIncomplete) as caught:
        calls.park(DEPLOYMENT, [{"number": number} for number in range(150)], submission_key="s")

    assert caught.value.parked_count == 101
    assert str(caught.value).startswith("At least the first 101 runs are parked: ")
    assert "submission_key='s'" in str(caught.value)
    assert KEY not in str(caught.value)
    server.create_faults.clear()
    assert len(calls.park(DEPLOYMENT, [{"number": number} for number in range(150)], submission_key="s")) == 150
    assert len(server.runs) == 150


def test_a_submission_whose_answers_are_lost_does_not_say_that_the_rest_is_not_parked(wire, calls, server, monkeypatch):
    monkeypatch.setenv("PREFECT_INTEGRATIONS_ORDERED_QUEUE_STALL_TIMEOUT", "PT1S")
    server.create_faults = [None, *["answer lost"] * 100]

    with pytest.raises(SubmissionIncomplete, match=r"^At least the first 100 runs are parked: ") as caught:
        calls.park(DEPLOYMENT, [{"number": number} for number in range(150)], submission_key="s")

    assert (caught.value.parked_count, caught.value.may_be_more) == (100, True)
    assert len(server.runs) == 150


def test_a_row_that_the_server_names_in_a_422_is_the_one_told_of(wire, calls, server):
    detail = {"exception_detail": [{"loc": ["body", 4, "parameters"], "msg": "too large"}]}
    server.create_faults = [httpx.Response(422, json=detail)]

    with pytest.raises(InvalidRun) as caught:
        calls.park(DEPLOYMENT, ROWS)

    assert caught.value.position == 4
    assert "too large" in caught.value.reason


@pytest.mark.parametrize("version", ["3.7.5", "3.6.16", "2.20.0"])
def test_nothing_is_parked_on_a_server_that_is_too_old(wire, calls, server, version):
    wire.get("/admin/version").respond(json=version)

    with pytest.raises(ServerTooOld, match=rf"is version {version}; ordered_queue needs 3\.7\.6 or later"):
        calls.park(DEPLOYMENT, ROWS)

    assert server.runs == {}


@pytest.mark.parametrize("answer", [httpx.Response(200, json={}), httpx.Response(200, json={"results": [1]})])
def test_a_malformed_answer_is_told_of_with_the_prefix(wire, calls, server, answer):
    server.create_faults = [answer]

    with pytest.raises(SubmissionIncomplete, match="not what Prefect's API promises"):
        calls.park(DEPLOYMENT, ROWS)


def test_a_submission_sends_what_prefect_understands(wire, calls, server):
    calls.park(DEPLOYMENT, ROWS[:1], submission_key="s")

    (item,) = body(server.bulk.calls.last)
    assert item["idempotency_key"] == f"{DEPLOYMENT}/s/0"
    assert item["state"]["type"] == "SCHEDULED"


def test_a_key_that_was_used_for_another_list_is_refused_with_the_first_row_that_differs(wire, calls, server):
    calls.park(DEPLOYMENT, ROWS, submission_key="s")
    sent = server.bulk.call_count

    with pytest.raises(InvalidRun) as caught:
        calls.park(DEPLOYMENT, [*ROWS[:2], {"number": 7}, *ROWS[3:], {"number": 6}], submission_key="s")

    assert (caught.value.position, caught.value.parked_count) == (2, 2)
    assert caught.value.reason == (
        "submission 's' already has another run at this position, with other parameters; use a new key for a new list."
    )
    assert "same submission key" not in str(caught.value)
    assert server.bulk.call_count == sent
    assert len(server.runs) == 6


def test_a_key_of_the_callers_own_is_refused_when_another_run_has_it(wire, calls, server):
    """In the second chunk of a fresh submission: nothing is looked up there, the server answers with the other run."""
    calls.park(DEPLOYMENT, [RunRequest({"number": 1}, idempotency_key="mine")], submission_key="s")
    rows = [*({"number": number} for number in range(101)), RunRequest({"number": 2}, idempotency_key="mine")]

    with pytest.raises(InvalidRun) as caught:
        calls.park(DEPLOYMENT, rows, submission_key="other")

    assert (caught.value.position, caught.value.parked_count) == (101, 101)
    assert caught.value.reason == (
        "idempotency key 'mine' already has another run, with other parameters; use a new key."
    )


def test_a_key_of_another_deployments_run_is_refused_and_tells_what_is_parked_before_it(wire, calls, server):
    calls.park(DEPLOYMENT, [RunRequest({"number": 1}, idempotency_key="mine")], submission_key="s")
    for run in server.runs.values():
        run["deployment_id"] = str(uuid4())

    with pytest.raises(InvalidRun, match="keys are unique within a flow") as caught:
        calls.park(DEPLOYMENT, [{"number": 0}, RunRequest({"number": 1}, idempotency_key="mine")], submission_key="o")

    assert (caught.value.position, caught.value.parked_count) == (1, 1)

import json
from datetime import datetime, timedelta
from uuid import UUID

import httpx
import pytest

from ordered_queue import PARKED_TAG
from tests.contract.conftest import API, KEY
from tests.factories import NOW, a_deployment, parked, promoted, running

DEPLOYMENT = UUID(int=1000)
DATE = {"Date": "Sun, 01 Mar 2026 12:00:00 GMT"}


@pytest.fixture(autouse=True)
def clock_at_now(monkeypatch):
    """Our clock stands still; where the server's Date says the same, it is not corrected."""

    class Frozen(datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    monkeypatch.setattr("ordered_queue._drive.datetime", Frozen)


def as_json(thing):
    return json.loads(thing.model_dump_json())


def serve_queue(wire, *, head=(), due=(), active=(), deployment=None):
    """Answer reads with these runs. The server's clock stands at NOW, far from ours."""
    deployment = deployment or a_deployment(1)
    wire.get(f"/deployments/{DEPLOYMENT}").respond(json=as_json(deployment), headers=DATE)

    def runs(request):
        flow_runs = json.loads(request.content)["flow_runs"]
        kind = head if "tags" in flow_runs else active if "state" in flow_runs else due
        return httpx.Response(200, json=[as_json(run) for run in kind], headers=DATE)

    wire.post("/flow_runs/filter").mock(side_effect=runs)


def accept(request):
    state = json.loads(request.content)["state"]
    return httpx.Response(201, json={"status": "ACCEPT", "state": state, "details": {}}, headers=DATE)


def sent(wire):
    return [(call.request.method, str(call.request.url).removeprefix(API)) for call in wire.calls]


def body(call):
    return json.loads(call.request.content)


def test_a_fill_reads_four_times_and_writes_once(wire, calls):
    head = [parked(1, labels={"ordered-queue.version": "1"}), parked(2)]
    serve_queue(wire, head=head, active=[running(9)], deployment=a_deployment(2))
    promote = wire.post(f"/flow_runs/{head[0].id}/set_state").mock(side_effect=accept)

    assert calls.fill(DEPLOYMENT) == 1

    assert sent(wire) == [
        ("GET", f"/deployments/{DEPLOYMENT}"),
        ("POST", "/flow_runs/filter"),
        ("POST", "/flow_runs/filter"),
        ("POST", "/flow_runs/filter"),
        ("POST", f"/flow_runs/{head[0].id}/set_state"),
    ]
    waiting, due, active = (body(call) for call in list(wire.calls)[1:4])
    deployments = {"id": {"any_": [str(DEPLOYMENT)]}}
    assert waiting == {
        "deployments": deployments,
        "flow_runs": {"next_scheduled_start_time": {"after_": NOW.isoformat()}, "tags": {"all_": [PARKED_TAG]}},
        "sort": "NEXT_SCHEDULED_START_TIME_ASC",
        "limit": 7,
        "offset": 0,
    }
    assert due["flow_runs"] == {"next_scheduled_start_time": {"before_": NOW.isoformat()}}
    assert active["flow_runs"]["state"]["type"] == {"any_": ["RUNNING", "PENDING", "CANCELLING"]}
    state = body(promote.calls.last)["state"]
    assert (state["type"], state["name"]) == ("SCHEDULED", "Late")
    assert state["state_details"]["scheduled_time"] == NOW.isoformat()
    assert UUID(state["state_details"]["transition_id"])
    assert state["message"].startswith("Promoted by ordered_queue")  # users' alerts match on it
    assert "force" not in body(promote.calls.last)


def test_a_clock_that_is_minutes_off_is_corrected_by_the_servers(wire, calls):
    hour_later = {"Date": "Sun, 01 Mar 2026 13:00:00 GMT"}
    wire.get(f"/deployments/{DEPLOYMENT}").respond(json=as_json(a_deployment(1)), headers=hour_later)
    head = wire.post("/flow_runs/filter").respond(json=[], headers=hour_later)

    calls.fill(DEPLOYMENT)

    asked = body(head.calls.last)["flow_runs"]["next_scheduled_start_time"]["after_"]
    assert asked == (NOW + timedelta(hours=1)).isoformat()


def test_an_empty_queue_costs_two_requests(wire, calls):
    serve_queue(wire)

    assert calls.fill(DEPLOYMENT) == 0
    assert len(wire.calls) == 2


def test_a_limit_of_zero_costs_one_request(wire, calls):
    serve_queue(wire, head=[parked(1)], deployment=a_deployment(0))

    assert calls.fill(DEPLOYMENT) == 0
    assert len(wire.calls) == 1


def test_a_refused_promotion_makes_the_fill_read_again(wire, calls):
    serve_queue(wire, head=[parked(1, labels={"ordered-queue.version": "1"})])
    refuse = wire.post(f"/flow_runs/{parked(1).id}/set_state")
    refusal = {"status": "REJECT", "state": {"type": "CANCELLED", "state_details": {}}, "details": {}}
    refuse.mock(side_effect=[httpx.Response(200, json=refusal), httpx.Response(404, json={"detail": "gone"})] * 20)

    assert calls.fill(DEPLOYMENT) == 0
    assert refuse.call_count == 20  # as often as a fill reads at most


def test_a_lost_answer_is_asked_for_again_with_the_same_transition_and_counts_as_ours(wire, calls, no_waiting):
    serve_queue(wire, head=[parked(1, labels={"ordered-queue.version": "1"}), parked(2)])
    first = {}

    def lose_then_reject(request):
        state = json.loads(request.content)["state"]
        if not first:
            first.update(state)
            raise httpx.ReadTimeout("lost")
        return httpx.Response(200, json={"status": "REJECT", "state": first, "details": {}})

    promote = wire.post(f"/flow_runs/{parked(1).id}/set_state").mock(side_effect=lose_then_reject)

    assert calls.fill(DEPLOYMENT) == 1
    assert body(promote.calls[0]) == body(promote.calls[1])
    assert sum(no_waiting) < 1


def test_a_zombie_is_confirmed_by_reading_the_counter_after_the_runs(wire, calls, caplog):
    zombie = running(9, since=NOW - timedelta(minutes=40), lease=True)
    head = [parked(1, labels={"ordered-queue.version": "1"}), parked(2)]
    serve_queue(wire, head=head, active=[zombie], deployment=a_deployment(1, active_slots=0))
    wire.post(f"/flow_runs/{head[0].id}/set_state").mock(side_effect=accept)

    assert calls.fill(DEPLOYMENT) == 1
    assert len(wire.calls) == 6
    assert f"flow run {zombie.id} has been in its state for 40 min" in caplog.text


def test_a_run_that_starts_between_the_reads_makes_no_zombie_of_an_older_one(wire, calls):
    """Number 8 went Pending after the counter was read: two holders, one slot counted. The second look sees both."""
    old = running(9, since=NOW - timedelta(hours=3), lease=True)
    new = running(8, since=NOW, lease=True)
    serve_queue(wire, head=[parked(1), parked(2)], active=[old, new], deployment=a_deployment(2, active_slots=1))
    wire.get(f"/deployments/{DEPLOYMENT}").mock(
        side_effect=[
            httpx.Response(200, json=as_json(a_deployment(2, active_slots=1)), headers=DATE),
            httpx.Response(200, json=as_json(a_deployment(2, active_slots=2)), headers=DATE),
        ]
    )

    assert calls.fill(DEPLOYMENT) == 0


def test_the_counter_is_not_believed_where_it_is_too_high(wire, calls):
    head = [parked(1, labels={"ordered-queue.version": "1"}), parked(2)]
    serve_queue(wire, head=head, deployment=a_deployment(1, active_slots=4))
    wire.post(f"/flow_runs/{head[0].id}/set_state").mock(side_effect=accept)

    assert calls.fill(DEPLOYMENT) == 1


def test_a_promoted_run_in_the_head_of_a_slow_clock_is_not_promoted_past(wire, calls):
    ahead = promoted(1).model_copy(update={"next_scheduled_start_time": NOW + timedelta(seconds=1)})
    serve_queue(wire, head=[ahead, parked(2)])

    assert calls.fill(DEPLOYMENT) == 0


@pytest.mark.parametrize("version", ["3.7.5", "2.20.0"])
def test_nothing_is_promoted_on_a_server_that_is_too_old(wire, calls, caplog, version):
    serve_queue(wire, head=[parked(1), parked(2)])  # tagged by hand: no label says which server this is
    wire.get("/admin/version").respond(json=version)

    assert calls.fill(DEPLOYMENT) == 0
    assert f"The Prefect server is version {version}; ordered_queue needs 3.7.6 or later" in caplog.text


FAULTS = {
    "refused": {"side_effect": httpx.ConnectError("connection refused")},
    "timed out": {"side_effect": httpx.ReadTimeout("")},
    "cut off": {"side_effect": httpx.RemoteProtocolError("peer closed connection")},
    "unauthorized": {"return_value": httpx.Response(401, json={"detail": "Invalid API key"})},
    "forbidden": {"return_value": httpx.Response(403, json={"detail": "Forbidden"})},
    "not found": {"return_value": httpx.Response(404, json={"detail": "Not found"})},
    "limited": {"return_value": httpx.Response(429, headers={"Retry-After": "60"})},
    "broken": {"return_value": httpx.Response(500, text="oops")},
    "locked": {"return_value": httpx.Response(503, json={"detail": "locked"})},
    "a page": {"return_value": httpx.Response(200, text="<html>proxy</html>")},
    "empty": {"return_value": httpx.Response(200)},
    "null": {"return_value": httpx.Response(200, json=None)},
    "a number": {"return_value": httpx.Response(200, json=42)},
    "another object": {"return_value": httpx.Response(200, json={"surprise": True})},
    "a list of nonsense": {"return_value": httpx.Response(200, json=[{"surprise": True}])},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("request_number", [1, 2, 5])
def test_no_answer_of_any_request_is_ever_raised(wire, calls, caplog, fault, request_number):
    serve_queue(wire, head=[parked(1, labels={"ordered-queue.version": "1"}), parked(2)])
    route = {
        1: wire.get(f"/deployments/{DEPLOYMENT}"),
        2: wire.post("/flow_runs/filter"),
        5: wire.post(f"/flow_runs/{parked(1).id}/set_state"),
    }[request_number]
    route.mock(**FAULTS[fault])

    assert calls.fill(DEPLOYMENT) == 0

    if (fault, request_number) == ("not found", 5):
        return  # the run is gone: that is an answer, not a fault
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert f"Could not fill the queue of deployment {DEPLOYMENT}" in warnings[0].getMessage()
    assert "nightly refresh" in warnings[0].getMessage()
    assert KEY not in caplog.text


def test_a_server_that_is_away_is_given_up_on_before_long(wire, calls, no_waiting):
    wire.get(f"/deployments/{DEPLOYMENT}").mock(side_effect=httpx.ConnectError("refused"))

    calls.fill(DEPLOYMENT)

    assert len(wire.calls) == 4
    assert sum(no_waiting) < 8


def test_a_sweep_tells_of_the_queue_that_it_could_not_fill_and_goes_on(wire, calls):
    other = UUID(int=1001)
    wire.post("/deployments/filter").respond(json=[{"id": str(DEPLOYMENT)}, {"id": str(other)}])
    wire.get(f"/deployments/{DEPLOYMENT}").respond(500)
    wire.get(f"/deployments/{other}").respond(json=as_json(a_deployment(1, id=other)))
    wire.post("/flow_runs/filter").respond(json=[])

    broken, fine = calls.sweep()

    assert (broken.deployment_id, broken.promoted) == (DEPLOYMENT, 0)
    assert "the server answered 500" in broken.problem
    assert (fine.deployment_id, fine.promoted, fine.problem) == (other, 0, None)


def test_a_sweep_that_cannot_list_the_queues_says_so_and_does_not_raise(wire, calls, caplog):
    wire.post("/deployments/filter").respond(401, json={"detail": "Invalid API key"})

    (swept,) = calls.sweep()

    assert (swept.deployment_id, swept.promoted) == (None, 0)
    assert "401" in swept.problem
    assert "Could not fill the queues: Listing the queues failed: the server answered 401" in caplog.text
    assert KEY not in caplog.text

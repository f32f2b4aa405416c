"""What a doctor finds and puts right, on a real server.

Ages are made by shifting the time that the steps are told; everything else is made as it comes about.
"""

import importlib
import json
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

import ordered_queue._drive
from ordered_queue import PARKED_TAG, sweep_sync
from ordered_queue._doctor import remedies
from ordered_queue._doctor.diagnosis import diagnose
from ordered_queue._doctor.findings import Kind
from ordered_queue._doctor.look import look
from ordered_queue._drive import drive_sync
from ordered_queue._steps.effects import Send
from ordered_queue._steps.fill import Filled, fill
from ordered_queue._steps.sweep import sweep
from ordered_queue.cli import main
from ordered_queue.embedded import free_port
from tests.interruption import Crash, counting_requests, crashing_after
from tests.server.deployed import give_work_pool
from tests.server.slots import counter_of, lapse, leak, zombie_beside_a_live_run

TIMEOUT = timedelta(minutes=30)
COMMAND = importlib.import_module("ordered_queue.cli.doctor")  # Where the package itself holds the function.


def poll(queue):
    """Ask for runs as a runner does, and wait until the server took note of it."""
    body = {"deployment_ids": [str(queue.id)], "scheduled_before": "2000-01-01T00:00:00Z"}
    queue.client.request("POST", "/deployments/get_scheduled_flow_runs", json=body)


def kinds_of(queue):
    return {found.kind for found in diagnose(drive_sync(queue.client, look(queue.id)))}


def test_doctor_finds_nothing_and_exits_0_in_a_healthy_queue(deploy, capsys):
    queue = deploy(limit=1)
    run = queue.park(1)[0]
    queue.start(run)

    assert main(["doctor", queue.name]) == 0
    assert capsys.readouterr() == ("", "Nothing was found.\n")
    assert main(["doctor", queue.name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_doctor_lowers_a_counter_that_leaked_and_reads_it_back(deploy, doctor, later):
    queue = deploy(limit=4)
    queue.start(queue.park(1)[0])
    leak(queue, 2)
    later(11)

    _, found = doctor(queue.name, "--fix", "--yes")

    assert found["counter-too-high"]["fixed"] is True
    assert found["counter-too-high"]["outcome"] == "active_slots was 3 and is 1"
    assert counter_of(queue) == 1
    assert "counter-too-high" not in doctor(queue.name)[1]


def test_doctor_leaves_a_counter_alone_that_was_touched_a_moment_ago(deploy, doctor):
    queue = deploy(limit=4)
    leak(queue)

    code, found = doctor(queue.name, "--fix", "--yes")

    assert (code, found["counter-too-high"]["fix"]) == (1, None)
    assert counter_of(queue) == 1


def test_doctor_ends_a_zombie_and_leaves_the_others_slot_counted(deploy, doctor, later):
    queue = deploy(limit=1)
    runs = zombie_beside_a_live_run(queue)
    assert counter_of(queue) == 1
    later(16)

    _, found = doctor(queue.name, "--fix", "--yes")

    zombie = found["zombie"]
    assert (zombie["flow_run_ids"], zombie["fixed"]) == ([str(runs[0].flow_run_id)], True)
    assert queue.states(runs) == ["Crashed", "Running", "Parked"]
    # Prefect takes a slot off the counter for a run whose lease has lapsed, a second time.
    assert counter_of(queue) == 1
    assert kinds_of(queue) & {Kind.ZOMBIE, Kind.COUNTER_TOO_HIGH, Kind.COUNTER_TOO_LOW} == set()


def test_doctor_cancels_a_zombie_that_was_being_cancelled(deploy, doctor, later):
    queue = deploy(limit=2)
    run = queue.park(1)[0]
    queue.start(run)
    queue.set_state(run, "CANCELLING")
    lapse(queue, run)
    later(16)

    _, found = doctor(queue.name, "--fix", "--yes")

    assert found["zombie"]["fixed"] is True
    assert queue.state_of(run) == "Cancelled"
    assert counter_of(queue) == 0


def test_doctor_only_names_a_zombie_whose_lease_may_have_lapsed_a_moment_ago(deploy, doctor, later):
    queue = deploy(limit=1)
    run = queue.park(1)[0]
    queue.start(run)
    lapse(queue, run)
    later(14)

    _, found = doctor(queue.name, "--fix", "--yes")

    assert (found["zombie"]["fix"], found["zombie"]["fixed"]) == (None, None)
    assert queue.state_of(run) == "Running"


def test_doctor_spares_a_run_whose_lease_lives_whatever_the_counter_says(deploy, doctor, later):
    queue = deploy(limit=1)
    run = queue.park(1)[0]
    queue.start(run)
    queue.client.request("PATCH", f"/v2/concurrency_limits/deployment:{queue.id}", json={"active_slots": 0})
    later(16)

    code, found = doctor(queue.name, "--fix", "--yes")

    assert (code, found["zombie"]["fixed"]) == (1, False)
    assert "its lease is alive" in found["zombie"]["outcome"]
    assert queue.state_of(run) == "Running"


def test_a_remedy_does_nothing_when_the_run_has_moved_on_since_it_was_found(deploy, later):
    queue = deploy(limit=1)
    run = queue.park(1)[0]
    queue.start(run)
    lapse(queue, run)
    later(16)
    (found,) = [f for f in diagnose(drive_sync(queue.client, look(queue.id))) if f.kind is Kind.ZOMBIE]
    queue.finish(run)

    outcome = drive_sync(queue.client, remedies.apply(found))

    assert not outcome.is_fixed
    assert queue.state_of(run) == "Completed"


def test_a_remedy_that_was_stopped_halfway_never_leaves_the_counter_too_low(deploy, later):
    """Too low, the server would start a run too many; too high is found and put right by the next doctor."""
    for requests in range(8, 20):  # Before the 8th, nothing has been written.
        later(0)
        queue = deploy(limit=1)
        runs = queue.park(2)
        queue.start(runs[0])
        lapse(queue, runs[0])
        queue.set_state(runs[1], "SCHEDULED", name="Late")
        queue.start(runs[1])
        later(16)
        (found,) = [f for f in diagnose(drive_sync(queue.client, look(queue.id))) if f.kind is Kind.ZOMBIE]
        try:
            drive_sync(queue.client, crashing_after(remedies.apply(found), requests))
        except Crash:
            assert counter_of(queue) >= 1
        else:
            assert queue.states(runs) == ["Crashed", "Running"]
            break
    else:
        pytest.fail("the remedy never ended")


def test_doctor_asks_before_it_fixes_and_changes_nothing_without_a_yes(deploy, later, monkeypatch, capsys):
    queue = deploy(limit=1)
    leak(queue)
    later(11)
    monkeypatch.setattr(COMMAND, "is_confirmed", lambda question, yes: yes)

    assert main(["doctor", queue.name, "--fix"]) == 1

    assert "--fix would take 1 off active_slots" in capsys.readouterr().err
    assert counter_of(queue) == 1


def test_doctor_says_what_it_does_to_the_queue_and_what_to_do(deploy, capsys):
    queue = deploy(limit=1)
    queue.park(2)

    assert main(["doctor", queue.name]) == 1

    assert capsys.readouterr().out.splitlines() == [
        f"error nobody-polls: {queue.name}: runs are due or wait, and the deployment never was polled.",
        "    effect: promoted runs are not started",
        "    do: serve the deployment, or start a worker for its work pool and queue",
    ]


def test_doctor_tells_of_a_promoted_run_that_is_not_taken_although_somebody_polls(deploy, doctor, later):
    queue = deploy(limit=1)
    runs = queue.park(2)
    while queue.client.read_deployment(queue.id).status.value != "READY":
        poll(queue)
    later(6)

    code, found = doctor(queue.name)

    assert code == 1
    assert found["not-taken"]["flow_run_ids"] == [str(runs[0].flow_run_id)]
    assert found["not-taken"]["age_seconds"] >= 360
    assert "nobody-polls" not in found


def test_doctor_tells_of_pauses_and_narrow_limits_around_a_queue_with_work(deploy, doctor, client):
    pool = f"pool-{uuid4().hex[:8]}"
    body = {"name": pool, "type": "process", "concurrency_limit": 1, "is_paused": True}
    client.request("POST", "/work_pools/", json=body)
    client.request("PATCH", f"/work_pools/{pool}/queues/default", json={"concurrency_limit": 1, "is_paused": True})
    queue = deploy(limit=2, work_pool_name=pool, work_queue_name="default", paused=True)
    queue.park(3)

    code, found = doctor(queue.name)

    assert code == 1
    expected = {"deployment-paused", "pool-paused", "work-queue-paused", "pool-limit", "work-queue-limit"}
    assert expected <= set(found)


def test_doctor_tells_of_runs_long_pending_and_long_cancelling(deploy, doctor, later):
    queue = deploy(limit=2)
    runs = queue.park(2)
    queue.set_state(runs[0], "PENDING")
    queue.start(runs[1])
    queue.set_state(runs[1], "CANCELLING")
    later(21)

    _, found = doctor(queue.name)

    assert found["long-pending"]["flow_run_ids"] == [str(runs[0].flow_run_id)]
    assert found["long-cancelling"]["flow_run_ids"] == [str(runs[1].flow_run_id)]


def test_doctor_tells_of_a_queue_that_has_waited_for_half_of_park_delay(deploy, doctor, later):
    queue = deploy(limit=1)
    runs = queue.park(2)
    later(16 * 24 * 60)

    _, found = doctor(queue.name)

    assert found["old-queue"]["flow_run_ids"] == [str(runs[1].flow_run_id)]


def test_doctor_tells_of_a_limit_that_stops_promotion(deploy, doctor):
    queue = deploy(limit=1)
    queue.park(2)
    limit = queue.client.read_deployment(queue.id).global_concurrency_limit
    for change, kind in (({"limit": 0}, "limit-zero"), ({"active": False}, "limit-inactive")):
        queue.client.request("PATCH", f"/v2/concurrency_limits/{limit.id}", json=change)
        assert kind in doctor(queue.name)[1]


def test_doctor_tells_of_a_strategy_that_cancels_and_of_a_tag_on_the_deployment(deploy, doctor):
    queue = deploy(limit=1, strategy="CANCEL_NEW", tags=[PARKED_TAG])
    queue.create_waiting(1)

    code, found = doctor(queue.name)

    assert code == 1
    assert {"cancel-new", "tagged-deployment"} <= set(found)


def test_doctor_tells_of_a_parent_whose_child_waits_for_its_slot(deploy, doctor):
    queue = deploy(limit=1)
    parent = queue.park(1)[0]
    queue.start(parent)
    task = {"flow_run_id": str(parent.flow_run_id), "task_key": "child", "dynamic_key": "0"}
    task_run_id = queue.client.request("POST", "/task_runs/", json=task).json()["id"]
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2100-01-01T00:00:00Z"}}
    child = {"parent_task_run_id": task_run_id, "tags": [PARKED_TAG], "state": state}
    queue.client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=child)

    _, found = doctor(queue.name)

    assert found["parents-deadlock"]["flow_run_ids"] == [str(parent.flow_run_id)]


def test_doctor_tells_of_outsiders_and_of_a_native_backlog_and_exits_0(deploy, doctor):
    queue = deploy(limit=1)
    while queue.client.read_deployment(queue.id).status.value != "READY":
        poll(queue)
    holder, bounced = queue.create_outsider(), queue.create_outsider()
    queue.start(holder)
    queue.set_state(bounced, "PENDING")
    queue.park(1)

    code, found = doctor(queue.name)

    assert code == 0
    assert found["outsiders"]["flow_run_ids"] == [str(holder)]
    assert found["native-backlog"]["flow_run_ids"] == [str(bounced)]


def test_doctor_finds_a_waiting_run_whose_deployment_is_gone(deploy, doctor):
    """Deleting a deployment deletes its scheduled runs; one that is scheduled again afterwards is an orphan."""
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.cancel(runs[2])
    queue.client.request("DELETE", f"/deployments/{queue.id}")
    assert queue.states(runs) == ["gone", "gone", "Cancelled"]
    later = {"scheduled_time": "2100-01-01T00:00:00Z"}
    assert queue.set_state(runs[2], "SCHEDULED", name="Parked", state_details=later) == "ACCEPT"

    code, found = doctor()
    queue.delete(runs[2])

    assert code == 1
    assert str(runs[2].flow_run_id) in found["orphans"]["flow_run_ids"]


def test_doctor_looks_at_every_queue_in_use_also_where_nothing_waits(deploy, capsys, later):
    queue = deploy(limit=1)
    run = queue.park(1)[0]
    queue.start(run)
    lapse(queue, run)
    later(16)

    assert main(["doctor", "--json"]) == 1

    found = [each for each in json.loads(capsys.readouterr().out) if each["kind"] == "zombie"]
    assert str(run.flow_run_id) in [run_id for each in found for run_id in each["flow_run_ids"]]


def test_doctor_tells_of_a_clock_that_is_off(deploy, doctor, monkeypatch):
    queue = deploy(limit=1)

    class Behind(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(minutes=2)

    monkeypatch.setattr(ordered_queue._drive, "datetime", Behind)
    monkeypatch.setattr(COMMAND, "datetime", Behind)

    code, found = doctor(queue.name)

    assert code == 1
    assert "s ahead of this machine's" in found["clock-difference"]["what"]


@pytest.mark.parametrize("arguments", [["no/such"], ["--no-such-option"]], ids=["deployment", "option"])
def test_doctor_exits_2_when_it_is_misused(client, arguments):
    assert main(["doctor", *arguments]) == 2


def test_doctor_exits_3_when_it_cannot_look(client, capsys):
    with temporary_settings(updates={PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}):
        assert main(["doctor"]) == 3
    assert "Check that the server is running" in capsys.readouterr().err


def writes(steps, seen):
    """The same steps; what their requests that write are for is put into `seen`."""
    reads = ("/filter", "/count")
    answer = None
    while True:
        try:
            effect = next(steps) if answer is None else steps.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(effect, Send) and effect.call.method != "GET" and not effect.call.path.endswith(reads):
            seen.append(effect.call.what)
        answer = yield effect


def as_written(client, runs):
    """Each run's state and when it was changed last."""
    found = {}
    for start in range(0, len(runs), 200):
        body = {"flow_runs": {"id": {"any_": [str(run) for run in runs[start : start + 200]]}}, "limit": 200}
        page = client.request("POST", "/flow_runs/filter", json=body).json()
        found |= {run["id"]: (run["state_id"], run["updated"]) for run in page}
    assert len(found) == len(runs)
    return found


def test_a_sweep_and_a_doctor_of_a_full_queue_write_nothing_when_1000_runs_wait(deploy, client):
    queue = deploy(limit=1)
    queue.start(queue.park(1)[0])
    runs = queue.create_waiting(1000)
    before = as_written(client, runs)
    written, asked = [], []

    drive_sync(client, counting_requests(writes(sweep(queue.id, TIMEOUT, []), written), asked))
    drive_sync(client, writes(fill(queue.id, None, TIMEOUT, Filled()), written))
    assert len(asked) <= 4
    drive_sync(client, writes(look(queue.id), written))
    # What the nightly refresh does, whatever else is on the server.
    assert queue.id in [swept.deployment_id for swept in sweep_sync(client)]

    assert written == []
    assert as_written(client, runs) == before


def test_doctor_exits_1_when_a_slot_is_free_and_nobody_fills_it(deploy, doctor):
    """The likeliest mistake of all: a flow without `@queued`, and no watcher."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])
    queue.finish(runs[0])
    poll(queue)

    code, found = doctor(queue.name)

    assert code == 1
    assert found["slot-unfilled"]["severity"] == "warning"


def test_doctor_tells_of_runs_parked_before_the_deployment_had_a_work_pool(deploy, doctor, client):
    queue = deploy(limit=1)
    stranded = [run.flow_run_id for run in queue.park(2)]
    give_work_pool(queue)
    runs = queue.park(2)

    code, found = doctor(queue.name, "--fix", "--yes")

    assert code == 1
    assert found["out-of-reach"]["flow_run_ids"] == [str(stranded[1]), str(stranded[0])]
    assert "1 of them stays Late" in found["out-of-reach"]["what"]
    assert (found["out-of-reach"]["severity"], found["out-of-reach"]["fix"]) == ("warning", None)
    assert "slot-unfilled" not in found
    assert queue.states([*stranded, *(run.flow_run_id for run in runs)]) == ["Late", "Parked", "Late", "Parked"]

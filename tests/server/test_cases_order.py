"""Cases from the field, "order and waiting": docs/cases.md, 1 to 9. The number of the case is in each docstring."""

import threading
from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import PARKED_TAG, fill_free_slots_sync, park_sync, parked_time, sweep_sync
from tests.server.polled import offered_to_runner, offered_to_worker


def a_pool(client, *work_queues):
    """A work pool with these work queues, the first with the highest priority; its name."""
    name = f"pool-{uuid4().hex[:8]}"
    client.request("POST", "/work_pools/", json={"name": name, "type": "process"})
    for priority, work_queue in enumerate(work_queues, start=1):
        client.request("POST", f"/work_pools/{name}/queues", json={"name": work_queue, "priority": priority})
    return name


def ids(runs):
    return [run.flow_run_id for run in runs]


def test_of_500_waiting_runs_only_those_with_a_slot_are_polled_and_nobody_else_starves(deploy, client):
    """Cases 1 and 2: a poll answers 200 runs at most; none of those that wait is among them."""
    pool = a_pool(client)
    queue = deploy(limit=2, work_pool_name=pool, work_queue_name="default")
    other = deploy(limit=None, work_pool_name=pool, work_queue_name="default")
    runs = ids(queue.park(502))

    assert offered_to_worker(client, pool) == offered_to_runner(queue) == runs[:2]
    for run in runs[:2]:
        queue.start(run)
    outsider = other.create_outsider()
    assert offered_to_worker(client, pool) == offered_to_runner(queue, other) == [outsider]
    other.start(outsider)
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1
    assert offered_to_worker(client, pool) == runs[2:3]


def create_now(queue):
    """As the UI, the command line and an automation do."""
    return queue.create_outsider()


def create_by_schedule(queue):
    """As the scheduler does: one run of an hourly schedule, due half a minute ago."""
    due = datetime.now(timezone.utc) - timedelta(seconds=30)
    schedule = {"active": True, "schedule": {"interval": 3600, "anchor_date": due.isoformat()}}
    queue.client.request("POST", f"/deployments/{queue.id}/schedules", json=[schedule])
    body = {"start_time": (due - timedelta(seconds=5)).isoformat(), "min_runs": 1, "max_runs": 1}
    queue.client.request("POST", f"/deployments/{queue.id}/schedule", json=body)
    (run_id,) = set(offered_to_runner(queue)) - set(queue.parked)
    return run_id


@pytest.mark.parametrize("create", [create_now, create_by_schedule])
def test_a_run_from_outside_takes_its_turn_when_it_is_due_and_the_limit_holds(deploy, client, create):
    """Case 3: it does not queue. Once due it counts, so nothing is promoted into the slot that it will take."""
    queue = deploy(limit=2)
    runs = queue.park(5)
    queue.parked = ids(runs)
    for run in runs[:2]:
        queue.start(run)

    outsider = create(queue)
    queue.finish(runs[0])

    assert fill_free_slots_sync(client, queue.id) == 0
    assert offered_to_runner(queue) == [outsider]
    queue.start(outsider)
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.finish(runs[1])
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(runs[2])
    queue.finish(outsider)
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs) == ["Completed", "Completed", "Running", "Late", "Parked"]


def test_a_hook_a_submitter_and_a_sweep_together_promote_one_run_for_one_slot(deploy, client, server):
    """Case 4: all three read the same free slot."""
    queue = deploy(limit=1)
    runs = ids(queue.park(1))
    rounds = 5
    together = threading.Barrier(3, timeout=60)

    def act(what):
        with (
            temporary_settings(updates={PREFECT_API_URL: server.api_url}),
            get_client(httpx_settings={"timeout": 31}, sync_client=True) as own,
        ):
            for _ in range(rounds):
                together.wait()
                what(own)
                together.wait()

    def end_and_fill(own):
        run = next(run for run in runs if queue.state_of(run) == "Late")
        queue.start(run)
        queue.finish(run)
        fill_free_slots_sync(own, queue.id)

    def submit(own):
        runs.extend(ids(park_sync(queue.id, [{}, {}], client=own)))

    everybody = (end_and_fill, submit, lambda own: sweep_sync(own, queue.id))
    threads = [threading.Thread(target=act, args=(what,)) for what in everybody]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    fill_free_slots_sync(client, queue.id)
    assert queue.states(runs) == ["Completed"] * rounds + ["Late"] + ["Parked"] * rounds
    assert all(queue.history(run).count("Late") <= 1 for run in runs)


def test_a_pool_with_several_work_queues_keeps_the_order_of_each_deployment(deploy, client):
    """Case 6: a poll is answered by work queue, the highest priority first; within a deployment the order is ours."""
    pool = a_pool(client, "urgent", "normal")
    normal = deploy(limit=2, work_pool_name=pool, work_queue_name="normal")
    urgent = deploy(limit=2, work_pool_name=pool, work_queue_name="urgent")
    waiting = {queue.id: ids(queue.park(6)) for queue in (normal, urgent)}
    started = {queue.id: [] for queue in (normal, urgent)}

    while any(waiting.values()):
        for run in offered_to_worker(client, pool):
            queue = next(queue for queue in (normal, urgent) if run in waiting[queue.id])
            waiting[queue.id].remove(run)
            started[queue.id].append(run)
            queue.start(run)
            queue.finish(run)
            fill_free_slots_sync(client, queue.id)

    for queue in (normal, urgent):
        due = [queue.read(run).expected_start_time for run in started[queue.id]]
        assert due == sorted(due)


def test_runs_of_one_deployment_on_other_work_queues_are_promoted_in_their_order_all_the_same(deploy, client):
    """Case 6: a run may name a work queue of its own; a queue is the deployment's, whatever polls for its runs."""
    pool = a_pool(client, "urgent", "normal")
    queue = deploy(limit=1, work_pool_name=pool, work_queue_name="normal")
    base = datetime.now(timezone.utc)
    runs = []
    for position, work_queue in enumerate(["normal", "urgent", "normal"]):
        state = {"type": "SCHEDULED", "state_details": {"scheduled_time": parked_time(base, position).isoformat()}}
        body = {"state": state, "tags": [PARKED_TAG], "work_queue_name": work_queue}
        made = client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=body).json()
        runs.append(UUID(made["id"]))

    for run in runs:
        assert fill_free_slots_sync(client, queue.id) == 1
        assert offered_to_worker(client, pool) == [run]
        queue.start(run)
        queue.finish(run)


def start_a_child(queue, parent, **fields):
    """As `run_deployment(as_subflow=True)` does: a task run of the parent, and a run that has it as its parent."""
    task = {"flow_run_id": str(parent), "task_key": "child", "dynamic_key": uuid4().hex}
    task_run_id = queue.client.request("POST", "/task_runs/", json=task).json()["id"]
    body = {"parent_task_run_id": task_run_id, **fields}
    made = queue.client.request("POST", f"/deployments/{queue.id}/create_flow_run", json=body).json()
    return UUID(made["id"])


def test_a_parent_that_holds_the_slot_of_its_own_child_is_named_and_nothing_is_made_worse(deploy, client, doctor):
    """Case 8: Prefect bounces the child for ever. We neither promote it past the limit nor touch its parent."""
    queue = deploy(limit=1)
    parent, waiting = ids(queue.park(2))
    queue.start(parent)
    child = start_a_child(queue, parent)
    assert queue.set_state(child, "PENDING") == "REJECT"
    before = [queue.read(run).state_id for run in (parent, child, waiting)]

    assert fill_free_slots_sync(client, queue.id) == 0
    code, found = doctor(queue.name)

    assert code == 1
    assert found["parents-deadlock"]["flow_run_ids"] == [str(parent)]
    assert [queue.read(run).state_id for run in (parent, child, waiting)] == before
    # What the finding advises.
    queue.set_limit(2)
    assert "parents-deadlock" not in doctor(queue.name)[1]
    assert queue.set_state(child, "PENDING") == "ACCEPT"


def test_a_promoted_run_that_is_slow_to_start_is_not_touched_and_nobody_is_promoted_past_it(deploy, client, later):
    """Case 9: push pools take 5 to 15 minutes. Also while somebody polls, and whoever looks."""
    queue = deploy(limit=1)
    first, second = ids(queue.park(2))
    offered_to_runner(queue)
    before = queue.read(first).state_id

    for minutes in (0, 5, 16):
        later(minutes)
        assert fill_free_slots_sync(client, queue.id) == 0
        assert [swept.promoted for swept in sweep_sync(client, queue.id)] == [0]

    assert queue.read(first).state_id == before
    assert queue.state_of(second) == "Parked"
    queue.start(first)

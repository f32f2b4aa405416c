"""Cases from the field, "slots that leak": docs/cases.md, 10 to 17. The number of the case is in each docstring."""

from ordered_queue import fill_free_slots_sync
from tests.server.polled import offered_to_runner
from tests.server.slots import counter_of, lapse, leak


def test_a_run_whose_worker_died_before_it_ran_is_reported_with_its_states_age_and_ended_on_request(
    deploy, client, doctor, later
):
    """Case 10: it is Pending for ever and has no start time. Nothing is written without --fix."""
    queue = deploy(limit=1)
    first, second = queue.park(2)
    assert queue.set_state(first, "PENDING") == "ACCEPT"
    lapse(queue, first)
    assert queue.read(first.flow_run_id).start_time is None
    later(16)

    _, found = doctor(queue.name)
    assert found["zombie"]["flow_run_ids"] == [str(first.flow_run_id)]
    assert 960 <= found["zombie"]["age_seconds"] < 1100
    assert queue.states([first, second]) == ["Pending", "Parked"]

    _, found = doctor(queue.name, "--fix", "--yes")
    assert found["zombie"]["fixed"] is True
    assert queue.state_of(first) == "Crashed"
    assert fill_free_slots_sync(client, queue.id) == 1


def test_a_counter_that_leaked_upwards_stops_no_promotion_and_is_put_right_on_request(deploy, client, doctor, later):
    """Case 11: one active slot with nothing running. Promoted, the run is bounced; repaired, it starts."""
    queue = deploy(limit=1)
    leak(queue)
    run, second = queue.park(2)
    assert queue.state_of(run) == "Late"
    assert queue.set_state(run, "PENDING") == "REJECT"
    later(11)

    assert doctor(queue.name)[1]["counter-too-high"]["what"].startswith("active_slots is 1, while 0 of its runs")
    assert doctor(queue.name, "--fix", "--yes")[1]["counter-too-high"]["fixed"] is True
    later(0)

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.set_state(run, "PENDING") == "ACCEPT"
    assert queue.state_of(second) == "Parked"


def test_a_counter_that_is_too_low_promotes_nothing_into_slots_that_runs_hold(deploy, client, doctor):
    """Case 11: none active with two running. Decided from the states; the counter is told of."""
    queue = deploy(limit=2)
    runs = queue.park(3)
    for run in runs[:2]:
        queue.start(run)
    client.request("PATCH", f"/v2/concurrency_limits/deployment:{queue.id}", json={"active_slots": 0})

    assert fill_free_slots_sync(client, queue.id) == 0
    assert "active_slots is 0, while 2 of its runs" in doctor(queue.name)[1]["counter-too-low"]["what"]


def test_a_run_that_lost_its_slot_as_it_was_provisioned_is_cancelled_by_prefect_and_the_queue_moves_on(deploy, client):
    """Case 13: its lease lapses while it is Pending, another takes the slot, and at Running Prefect cancels it."""
    queue = deploy(limit=1)
    first, second, third = queue.park(3)
    queue.set_state(first, "PENDING")
    lapse(queue, first)
    outsider = queue.create_outsider()
    queue.start(outsider)

    assert queue.set_state(first, "RUNNING") == "REJECT"
    assert queue.state_of(first) == "Cancelled"
    assert "slot lost during provisioning" in queue.read(first.flow_run_id).state.message
    queue.finish(outsider)

    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states([second, third]) == ["Late", "Parked"]


def test_the_queue_advances_once_when_a_run_is_crashed_whose_process_lives_on(deploy, client):
    """Case 14: a lease renewal failed. The process ends later, and its hook fills a second time."""
    queue = deploy(limit=1)
    first, second, third = queue.park(3)
    queue.start(first)
    assert queue.set_state(first, "CRASHED") == "ACCEPT"
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(second)

    queue.set_state(first, "COMPLETED")

    assert fill_free_slots_sync(client, queue.id) == 0
    assert queue.states([second, third]) == ["Running", "Parked"]
    assert counter_of(queue) == 1


def test_free_slots_follow_the_limit_whatever_is_active(deploy, client):
    """Case 15: raised, lowered below what runs, 0, raised again, removed."""
    queue = deploy(limit=1)
    runs = queue.park(9)
    queue.start(runs[0])

    queue.set_limit(3)
    assert fill_free_slots_sync(client, queue.id) == 2
    for run in runs[1:3]:
        queue.start(run)
    for limit in (1, 0):
        queue.set_limit(limit)
        assert fill_free_slots_sync(client, queue.id) == 0
    queue.set_limit(2)
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.finish(runs[1])
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states(runs[2:]) == ["Running", "Late"] + ["Parked"] * 5

    queue.set_limit(None)
    assert fill_free_slots_sync(client, queue.id) == 5
    due = [queue.read(run.flow_run_id).next_scheduled_start_time for run in runs[3:]]
    assert due == sorted(set(due))


def test_runs_from_before_the_limit_count_although_prefect_does_not_count_them(deploy, client):
    """Case 15: a limit set for the first time while two run; the server's counter says 0."""
    queue = deploy(limit=None)
    runs = queue.park(2)
    for run in runs:
        queue.start(run)

    queue.set_limit(2)
    runs += queue.park(2)

    assert counter_of(queue) == 0
    assert queue.states(runs) == ["Running", "Running", "Parked", "Parked"]
    queue.finish(runs[0])
    assert fill_free_slots_sync(client, queue.id) == 1


def test_nothing_is_promoted_past_a_run_that_a_poller_does_not_take_and_the_doctor_says_why(
    deploy, client, doctor, later
):
    """Case 16: a worker's own --limit has leaked. It polls and takes nothing."""
    queue = deploy(limit=1)
    first, second = queue.park(2)
    while client.read_deployment(queue.id).status.value != "READY":
        assert offered_to_runner(queue) == [first.flow_run_id]

    for minutes in (6, 29):
        later(minutes)
        assert fill_free_slots_sync(client, queue.id) == 0
    _, found = doctor(queue.name)

    assert found["not-taken"]["flow_run_ids"] == [str(first.flow_run_id)]
    assert "a worker's `--limit`" in found["not-taken"]["next_action"]
    assert queue.state_of(second) == "Parked"


def test_a_limit_that_is_set_for_the_first_time_is_honoured_by_the_next_fill(deploy, client):
    """Case 17: each fill reads the limit; we set none ourselves (tests/contract/test_every_request.py)."""
    queue = deploy(limit=None)
    waiting = queue.create_waiting(3)

    queue.set_limit(1)

    assert client.read_deployment(queue.id).global_concurrency_limit.limit == 1
    assert fill_free_slots_sync(client, queue.id) == 1
    assert sorted(queue.states(waiting)) == ["Late", "Parked", "Parked"]

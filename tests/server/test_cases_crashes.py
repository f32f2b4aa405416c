"""Cases from the field, "crashes and hooks": docs/cases.md, 18 to 25. The number of the case is in each docstring."""

from ordered_queue import fill_free_slots_sync, sweep_sync
from tests.server.slots import counter_of, lapse
from tests.server.test_cases_order import ids, start_a_child


def test_the_queue_goes_on_behind_a_run_that_died_together_with_its_runner(deploy, client, doctor, later):
    """Case 18: nobody tells Prefect, the run stays Running for ever. Once its lease has lapsed it stops counting."""
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.start(runs[0])
    lapse(queue, runs[0])

    later(4)
    assert fill_free_slots_sync(client, queue.id) == 0
    later(6)
    assert fill_free_slots_sync(client, queue.id) == 1

    assert queue.states(runs) == ["Running", "Late", "Parked"]
    assert doctor(queue.name)[1]["zombie"]["flow_run_ids"] == [str(runs[0].flow_run_id)]


def test_no_run_is_ended_on_a_guess(deploy, client, doctor, later):
    """Case 21: a parent that has said nothing for two days, a zombie, one stuck in Pending: all keep their state."""
    queue = deploy(limit=3)
    runs = queue.park(4)
    parent, zombie, pending = runs[:3]
    queue.start(parent)
    start_a_child(queue, parent.flow_run_id)
    queue.start(zombie)
    queue.set_state(pending, "PENDING")
    lapse(queue, zombie)
    before = [queue.read(run).state_id for run in ids(runs[:3])]
    later(2 * 24 * 60)

    fill_free_slots_sync(client, queue.id)
    sweep_sync(client, queue.id)
    code, found = doctor(queue.name)

    assert code == 1
    assert "zombie" in found
    assert [queue.read(run).state_id for run in ids(runs[:3])] == before


def test_a_run_that_has_held_a_slot_for_days_is_shown_with_its_age(deploy, doctor, later):
    """Case 22: ancient Running rows. Of several the oldest is shown first, as `ordered-queue ls` does."""
    queue = deploy(limit=1)
    run = queue.park(2)[0]
    queue.start(run)
    later(3 * 24 * 60)

    found = doctor(queue.name)[1]["long-running"]

    assert found["flow_run_ids"] == [str(run.flow_run_id)]
    assert found["age_seconds"] >= 3 * 24 * 60 * 60


def test_a_crashed_run_that_comes_back_is_reported_and_nobody_is_promoted_until_the_limit_holds(deploy, client, doctor):
    """Case 23: Prefect lets it be Running again without asking for a slot. A is Crashed, B runs, A's process starts."""
    queue = deploy(limit=1)
    a, b, waiting = ids(queue.park(3))
    queue.start(a)
    queue.set_state(a, "CRASHED")
    assert fill_free_slots_sync(client, queue.id) == 1
    queue.start(b)

    assert queue.set_state(a, "RUNNING") == "ACCEPT"

    code, found = doctor(queue.name)
    assert code == 1
    assert found["over-limit"]["flow_run_ids"] == [str(a), str(b)]
    assert fill_free_slots_sync(client, queue.id) == 0
    queue.finish(a)
    # A gave back a slot that B holds; the states are believed, not the counter.
    assert counter_of(queue) == 0
    assert fill_free_slots_sync(client, queue.id) == 0
    assert "over-limit" not in doctor(queue.name)[1]
    queue.finish(b)
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(waiting) == "Late"


def test_a_run_that_is_being_cancelled_holds_its_slot_is_reported_and_then_lets_the_queue_go_on(
    deploy, client, doctor, later
):
    """Case 24: its worker is gone, so nobody writes Cancelled; Prefect does after 300 s, or an operator."""
    queue = deploy(limit=1)
    first, second = queue.park(2)
    queue.start(first)
    queue.set_state(first, "CANCELLING")

    assert fill_free_slots_sync(client, queue.id) == 0
    later(11)
    assert doctor(queue.name)[1]["long-cancelling"]["flow_run_ids"] == [str(first.flow_run_id)]
    later(0)

    queue.set_state(first, "CANCELLED")
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(second) == "Late"

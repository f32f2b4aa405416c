"""Adopting a backlog of Prefect's own, on a real server."""

import pytest

from ordered_queue import PARKED_TAG, fill_free_slots_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.adopt import adopt
from ordered_queue.cli import main
from tests.interruption import Crash, counting_requests, crashing_after, watched


def native_backlog(queue, count):
    """Runs that were submitted in Prefect's own way and bounced, the last one first; in the order of creation."""
    holder = queue.create_outsider()
    queue.start(holder)
    backlog = [queue.create_outsider() for _ in range(count)]
    for run in reversed(backlog):
        assert queue.set_state(run, "PENDING") == "REJECT"
    assert set(queue.states(backlog)) == {"AwaitingConcurrencySlot"}
    return holder, backlog


def adopted_of(queue):
    adopted = []
    drive_sync(queue.client, adopt(queue.id, adopted))
    return adopted


def drained(queue, current, runs):
    """The order in which fills promote the runs as one after another ends."""
    order = []
    while True:
        queue.finish(current)
        fill_free_slots_sync(queue.client, queue.id)
        late = [run for run in runs if queue.state_of(run) == "Late"]
        if not late:
            return order
        assert len(late) == 1
        current = late[0]
        order.append(current)
        queue.start(current)


def test_an_adopted_backlog_is_drained_in_the_order_of_its_creation_before_what_is_parked_later(deploy):
    queue = deploy(limit=1)
    holder, backlog = native_backlog(queue, 5)

    assert adopted_of(queue) == backlog
    parked = [run.flow_run_id for run in queue.park(2)]

    assert drained(queue, holder, [*parked, *backlog]) == [*backlog, *parked]


def test_an_adopted_run_keeps_its_tags_and_its_state(deploy):
    queue = deploy(limit=1)
    holder, (run,) = native_backlog(queue, 1)
    queue.client.request("PATCH", f"/flow_runs/{run}", json={"tags": ["nightly", "eu"]})
    before = queue.read(run).state

    adopted_of(queue)

    assert sorted(queue.read(run).tags) == sorted(["nightly", "eu", PARKED_TAG])
    assert queue.read(run).state.id == before.id
    assert queue.read(holder).tags == []


def test_adopt_leaves_alone_what_was_put_in_the_future_on_purpose(deploy):
    queue = deploy(limit=1)
    later = queue.create_outsider(state_details={"scheduled_time": "2100-01-01T00:00:00Z"})

    assert adopted_of(queue) == []
    assert queue.read(later).tags == []


def test_adopt_takes_runs_that_are_due_and_they_count_as_promoted(deploy):
    queue = deploy(limit=1)
    due = queue.create_outsider()

    assert adopted_of(queue) == [due]
    assert set(queue.states([run.flow_run_id for run in queue.park(2)])) == {"Parked"}


def test_adopt_writes_nothing_when_it_is_repeated(deploy):
    queue = deploy(limit=1)
    native_backlog(queue, 2)
    adopted_of(queue)
    seen = []

    drive_sync(queue.client, counting_requests(adopt(queue.id, []), seen))

    assert not [what for what in seen if what.startswith("Changing")]


@pytest.mark.parametrize("requests", range(2, 9))
def test_adopt_goes_on_where_it_was_stopped_when_it_is_repeated(deploy, requests):
    queue = deploy(limit=1)
    holder, backlog = native_backlog(queue, 3)
    with pytest.raises(Crash):
        drive_sync(queue.client, crashing_after(adopt(queue.id, []), requests))

    adopted_of(queue)

    assert drained(queue, holder, backlog) == backlog


@pytest.mark.parametrize("fate", ["CANCELLED", "gone"])
def test_adopt_does_not_revive_a_run_that_ends_while_it_is_at_work(deploy, fate):
    queue = deploy(limit=1)
    _, backlog = native_backlog(queue, 3)

    def end():
        queue.delete(backlog[1]) if fate == "gone" else queue.cancel(backlog[1])

    drive_sync(queue.client, before_first_write(adopt(queue.id, []), end))

    assert queue.state_of(backlog[0]) == "AwaitingConcurrencySlot"
    assert queue.states([backlog[1]])[0].upper() == fate.upper()


def before_first_write(steps, act):
    """The same steps; `act` is called right before their first request that writes."""
    acts = [act]

    def before(number, send):
        if send.call.method == "PATCH" and acts:
            acts.pop()()

    return watched(steps, before)


def test_adopt_refuses_a_deployment_that_would_cancel_the_runs(deploy, capsys):
    queue = deploy(limit=1, strategy="CANCEL_NEW")
    run = queue.create_outsider()

    assert main(["adopt", queue.name, "--yes"]) == 1

    told = capsys.readouterr().err
    assert "CANCEL_NEW" in told
    assert "repeat the command" not in told  # it would not help
    assert queue.read(run).tags == []


def test_the_command_adopts_and_fills(deploy, capsys):
    queue = deploy(limit=1)
    holder, backlog = native_backlog(queue, 2)
    queue.finish(holder)

    assert main(["adopt", queue.name, "--yes"]) == 0

    assert capsys.readouterr().out == "Adopted 2 runs.\n"
    assert queue.states(backlog) == ["Late", "AwaitingConcurrencySlot"]

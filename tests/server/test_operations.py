"""What docs/operations.md says of permissions and of bad days, tried."""

import re
from datetime import datetime, timedelta, timezone

import pytest

import ordered_queue._drive
from ordered_queue import PARKED_TAG, fill_free_slots_sync, park_sync, sweep_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.ending import fill_after_end
from ordered_queue._steps.fill import Filled
from tests.conftest import ROOT
from tests.fundamentals.papers import table
from tests.server.polled import offered_to_runner

OPERATIONS = ROOT / "docs" / "operations.md"
UUIDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def routes(monkeypatch):
    """The routes that are asked for from here on."""
    seen = set()
    real = ordered_queue._drive._arguments

    def noting(effect):
        path = UUIDS.sub("{id}", effect.call.path)
        path = re.sub(r"/name/[^/]+/[^/]+", "/name/{flow}/{deployment}", path)
        seen.add(f"{effect.call.method} {path}")
        return real(effect)

    monkeypatch.setattr(ordered_queue._drive, "_arguments", noting)
    return seen


def a_submitter(queue, client, runs):
    """Parks, by name and by id, and repeats it."""
    park_sync(queue.name, [{"number": 0}, {"number": 1}], submission_key="s", client=client)
    park_sync(queue.id, [{"number": 0}, {"number": 1}], submission_key="s", client=client)


def a_flow(queue, client, runs):
    """Ends, and is cancelled: what its hooks ask for."""
    fill_free_slots_sync(client, queue.id)
    steps = fill_after_end(runs[0].flow_run_id, queue.id, timedelta(minutes=30), Filled(), lambda: False)
    drive_sync(client, steps)


def a_watcher(queue, client, runs):
    """Fills what an event names, and sweeps."""
    fill_free_slots_sync(client, queue.id)
    sweep_sync(client)


COLUMNS = {"submitter": a_submitter, "flow": a_flow, "watcher": a_watcher}


@pytest.mark.parametrize("who", COLUMNS)
def test_the_table_of_routes_is_what_each_of_them_asks_for(deploy, client, routes, who):
    """Those who have a proxy before their server can let through just these."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])
    queue.finish(runs[0])
    routes.clear()

    COLUMNS[who](queue, client, runs)

    # Asked for once in a process, and this process has.
    routes.add("GET /admin/version")
    column = 1 + list(COLUMNS).index(who)
    assert routes == {row[0].strip("`") for row in table(OPERATIONS, "route") if row[column] == "x"}
    if who in ("flow", "watcher"):
        assert queue.state_of(runs[1]) == "Late"


def test_a_queue_whose_parked_times_have_all_passed_drains_in_order_all_the_same(deploy, client):
    """A server that was away for longer than PARK_DELAY: all is due at once, and Prefect bounces what has no slot."""
    queue = deploy(limit=2)
    base = datetime.now(timezone.utc) - timedelta(hours=1)
    due = [base + timedelta(milliseconds=position) for position in range(6)]
    runs = [queue.create_outsider(name="Parked", state_details={"scheduled_time": when.isoformat()}) for when in due]
    for run in runs:
        client.request("PATCH", f"/flow_runs/{run}", json={"tags": [PARKED_TAG]})

    # They count as promoted, so nobody is promoted beside them; what is parked now stands behind.
    assert fill_free_slots_sync(client, queue.id) == 0
    later_run = queue.park(1)[0]
    assert offered_to_runner(queue) == runs
    answers = [queue.set_state(run, "PENDING") for run in offered_to_runner(queue)]
    assert answers == ["ACCEPT"] * 2 + ["REJECT"] * 4

    for ended, following in zip(runs, [*runs[2:], later_run.flow_run_id], strict=False):
        assert queue.set_state(ended, "RUNNING") == "ACCEPT"
        queue.finish(ended)
        assert fill_free_slots_sync(client, queue.id) == 1
        assert queue.state_of(following) == "Late"
        assert queue.set_state(following, "PENDING") == "ACCEPT"

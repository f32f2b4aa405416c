"""Flows as Prefect alone knows them, without our decorator, served by Prefect's own ``serve``: no hook hands over."""

import pytest

from ordered_queue import park_sync, sweep_sync
from ordered_queue.testing import assert_in_order
from tests.server.deployed import Deployed, wait_until
from tests.server.processes import running
from tests.server.recording import executed
from tests.server.watching import NEVER, watching

RUNS = 2
NAMES = ["watched", "swept", "left"]


@pytest.fixture(scope="module")
def serving(server, tmp_path_factory):
    command = ("-m", "tests.server.recording", "plain", *NAMES)
    log_path = tmp_path_factory.mktemp("plain") / "log"
    with running(server, log_path, *command, PREFECT_RUNNER_POLL_FREQUENCY="1") as process:
        yield process


@pytest.fixture
def find(serving, client):
    """A deployment once somebody polls for it."""

    def by_name(name):
        body = {"deployments": {"name": {"any_": [name]}}}

        def polled():
            found = client.request("POST", "/deployments/filter", json=body).json()
            return [deployment["id"] for deployment in found if deployment["status"] == "READY"]

        wait_until(polled, 60, "the runner's first poll")
        return Deployed(client, client.read_deployment_by_name(f"plain/{name}").id, f"plain/{name}")

    return by_name


def park(queue, record):
    return park_sync(queue.id, [{"record": str(record)}] * RUNS, client=queue.client)


def assert_each_ran_once_in_order(queue, parked, record):
    assert executed(record) == [str(run.flow_run_id) for run in parked]
    assert_in_order([queue.read(run.flow_run_id) for run in parked], limit=1)


def test_the_watcher_alone_keeps_order_and_progress(server, find, tmp_path):
    queue, record = find("watched"), tmp_path / "record"
    with watching(server, tmp_path / "log", "--sweep-seconds", NEVER):
        parked = park(queue, record)
        wait_until(lambda: set(queue.states(parked)) == {"Completed"}, 180, "the end of all runs")

    assert_each_ran_once_in_order(queue, parked, record)


def test_sweeps_alone_keep_order_and_progress(find, client, tmp_path):
    queue, record = find("swept"), tmp_path / "record"
    parked = park(queue, record)

    def swept_to_the_end():
        sweep_sync(client)
        return set(queue.states(parked)) == {"Completed"}

    wait_until(swept_to_the_end, 120, "the end of all runs")

    assert_each_ran_once_in_order(queue, parked, record)


def test_without_hooks_watcher_and_sweeps_the_queue_stands(find, tmp_path):
    """So that the two tests above show what they say."""
    queue, record = find("left"), tmp_path / "record"
    first, second = park(queue, record)[:2]
    wait_until(lambda: queue.state_of(first) == "Completed", 60, "the first run's end")

    assert queue.states([second]) == ["Parked"]

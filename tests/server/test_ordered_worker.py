"""Our worker, in real processes. Its own loop polls once, as it starts; every later start is the quick poll's doing.

The flows have no hooks unless a test says so: the worker alone fills after each end.
"""

import os
import signal
import subprocess
import sys

import pytest
from prefect.client.schemas.actions import WorkPoolCreate

from ordered_queue import park_sync
from ordered_queue.testing import assert_in_order
from ordered_queue.worker import OrderedProcessWorker
from tests.server.deployed import wait_until
from tests.server.link import without_event_stream
from tests.server.working import FINAL, deploy_to, run_all, state_names, wait_for_events, working

POOL = "in-order"


@pytest.fixture(scope="module")
def pool(server):
    """A work pool made as the README says."""
    command = [sys.executable, "-m", "prefect", "work-pool", "create", POOL, "--type", "ordered-process"]
    made = subprocess.run(command, env=dict(server.env), capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return POOL


@pytest.fixture(scope="module")
def log_path(server, pool, tmp_path_factory):
    """What a worker of the pool says."""
    log_path = tmp_path_factory.mktemp("ordered-worker") / "log"
    with working(server, log_path, pool):
        wait_for_events(log_path)
        yield log_path


@pytest.fixture
def work(log_path, client):
    """Deploy a flow of `served.py` to the worker's pool."""
    return lambda flow_name, name, limit=1: deploy_to(client, POOL, flow_name, name, limit)


def make_pool(client, name, **fields):
    template = OrderedProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(name=name, type=OrderedProcessWorker.type, base_job_template=template, **fields)
    return client.create_work_pool(pool).name


def assert_taken_once(queue, runs):
    for run in runs:
        history = queue.history(run.id)
        assert history.count("Pending") == history.count("Running") == 1, history
        assert "AwaitingConcurrencySlot" not in history
        assert run.run_count == 1


def test_the_type_comes_with_the_process_workers_template(client, pool):
    made = client.read_work_pool(pool)

    assert made.type == "ordered-process"
    assert "working_dir" in made.base_job_template["variables"]["properties"]


def test_a_queue_runs_to_its_end_in_order(work):
    queue = work("without_hooks", "order")

    runs = run_all(queue, [{}] * 3)

    assert state_names(runs) == ["Completed"] * 3
    assert_in_order(runs, limit=1)
    assert_taken_once(queue, runs)


def test_the_next_run_starts_when_a_flow_process_is_killed(work):
    queue = work("without_hooks", "kill")

    runs = run_all(queue, [{"how": "kill"}, {}])

    assert state_names(runs) == ["Crashed", "Completed"]
    assert_taken_once(queue, runs)


def test_the_next_run_is_promoted_when_a_promoted_one_is_cancelled(server, client, tmp_path):
    """No process ends and no hook runs: an event is all there is."""
    queue = deploy_to(client, make_pool(client, "paused", is_paused=True), "without_hooks", "cancelled")
    with working(server, tmp_path / "log", "paused"):
        wait_for_events(tmp_path / "log")
        first, second = park_sync(queue.id, [{}, {}], client=client)

        queue.cancel(first)

        wait_until(lambda: queue.state_of(second) == "Late", 60, "promotion of the second run")


def test_two_workers_on_one_pool_run_each_run_once(work, server, log_path, tmp_path):
    with working(server, tmp_path / "log", POOL):
        wait_for_events(tmp_path / "log")
        queue = work("without_hooks", "two-workers", limit=2)

        runs = run_all(queue, [{}] * 4)

    assert state_names(runs) == ["Completed"] * 4
    assert_in_order(runs, limit=2)
    assert_taken_once(queue, runs)


def test_recovery_fills_a_queue_that_nobody_watched(server, client, tmp_path):
    queue = deploy_to(client, make_pool(client, "recovered"), "without_hooks", "recovered")
    first, second = park_sync(queue.id, [{}, {}], client=client)
    queue.cancel(first)  # no process, so no hook runs
    assert queue.states([first, second]) == ["Cancelled", "Parked"]

    with working(server, tmp_path / "log", "recovered"):
        wait_until(lambda: queue.state_of(second) == "Completed", 120, "the second run's end")

    assert "Start-up recovery: 1 run(s) promoted in 1 queue(s)." in (tmp_path / "log").read_text()


def test_a_deployment_without_a_queue_runs_as_in_any_worker(server, client, tmp_path):
    plain = deploy_to(client, make_pool(client, "plain"), "without_hooks", "plain", limit=None)
    run = plain.create_outsider()

    with working(server, tmp_path / "log", "plain"):
        wait_until(lambda: plain.state_of(run) == "Completed", 120, "the run's end")

    assert "Traceback" not in (tmp_path / "log").read_text()


def test_without_an_event_stream_it_fills_as_processes_end(server, client, tmp_path):
    log_path = tmp_path / "log"
    queue = deploy_to(client, make_pool(client, "deaf"), "without_hooks", "deaf")
    runs = park_sync(queue.id, [{"how": "kill"}, {}], client=client)
    assert queue.states(runs) == ["Late", "Parked"]

    # Its first poll takes the first run.
    with without_event_stream(server.api_url) as api_url, working(server, log_path, "deaf", PREFECT_API_URL=api_url):
        wait_until(lambda: set(queue.states(runs)) <= FINAL, 180, "the end of all runs")
        wait_until(lambda: "polling as usual" in log_path.read_text(), 60, "the worker to say so")

    assert queue.states(runs) == ["Crashed", "Completed"]
    assert "following the event stream" not in log_path.read_text()


def test_told_to_poll_once_it_polls_once_and_ends(server, client, tmp_path):
    queue = deploy_to(client, make_pool(client, "once"), "without_hooks", "once")
    runs = park_sync(queue.id, [{}, {}], client=client)

    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "once", "--run-once", "--limit", "5"]
    done = subprocess.run(
        command, env=dict(server.env), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert queue.state_of(runs[0]) == "Completed"


@pytest.mark.parametrize("received", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_told_to(server, tmp_path, received):
    log_path = tmp_path / "log"
    with working(server, log_path, "ending", query_seconds="1") as process:
        wait_for_events(log_path)
        os.kill(process.pid, received)
        assert process.wait(30) == 0

    assert "Traceback" not in log_path.read_text()

"""The watcher, as a process of its own: hooks are off, and it sweeps so rarely that events alone must do."""

import json
import os
import signal

import pytest

from tests.conftest import on_both_databases
from tests.server.deployed import wait_until
from tests.server.watching import NEVER, watching

pytestmark = on_both_databases


@pytest.fixture(scope="module")
def watcher(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    health = folder / "health"
    options = ("--sweep-seconds", NEVER, "--health-file", str(health))
    # Two, because several at once must do no harm.
    with watching(server, folder / "other", "--sweep-seconds", NEVER), watching(server, folder / "log", *options):
        yield folder


def test_the_watcher_alone_keeps_order_and_progress(watcher, deploy):
    queue = deploy(limit=1)
    runs = queue.park(5)

    for run in runs:
        wait_until(lambda run=run: queue.state_of(run) == "Late", what="promotion by the watcher")
        queue.start(run)
        queue.finish(run)

    assert queue.states(runs) == ["Completed"] * 5
    assert all(queue.history(run).count("Late") == 1 for run in runs)


@pytest.mark.parametrize("final", ["FAILED", "CRASHED", "CANCELLED"])
def test_the_watcher_promotes_the_next_run_however_one_ends(watcher, deploy, final):
    queue = deploy(limit=1)
    runs = queue.park(2)
    queue.start(runs[0])

    queue.set_state(runs[0], final)

    wait_until(lambda: queue.state_of(runs[1]) == "Late", what="promotion by the watcher")


def test_the_watcher_promotes_the_next_run_when_a_promoted_one_is_cancelled(watcher, deploy):
    queue = deploy(limit=1)
    runs = queue.park(3)

    queue.cancel(runs[0])
    wait_until(lambda: queue.state_of(runs[1]) == "Late", what="promotion after the cancellation")


def test_the_watcher_promotes_a_bounced_run_again_once_the_outsider_has_ended(watcher, deploy):
    queue = deploy(limit=1)
    runs = queue.park(2)
    outsider = queue.create_outsider()
    queue.start(outsider)
    assert queue.set_state(runs[0], "PENDING") == "REJECT"

    queue.finish(outsider)

    wait_until(lambda: queue.state_of(runs[0]) == "Late", 15, "promotion of the bounced run")
    assert queue.state_of(runs[1]) == "Parked"


def test_the_watcher_notices_a_raised_limit(watcher, deploy):
    queue = deploy(limit=1)
    runs = queue.park(4)

    queue.set_limit(3)

    wait_until(lambda: queue.states(runs) == ["Late", "Late", "Late", "Parked"], what="promotion up to the new limit")


def test_the_watcher_completes_a_submission_whose_submitter_died_before_its_fill(watcher, deploy):
    queue = deploy(limit=1)

    first, second = queue.create_waiting(2)

    wait_until(lambda: "Late" in queue.states([first, second]), what="promotion of what was only parked")


def test_the_watcher_tells_its_health_in_a_file(watcher):
    health = json.loads((watcher / "health").read_text())

    assert health["is_connected"] is True
    assert health["seconds_since_last_sweep"] >= 0


@pytest.mark.parametrize("received", [signal.SIGTERM, signal.SIGINT])
def test_the_watcher_ends_cleanly_when_it_is_told_to(server, tmp_path, received):
    with watching(server, tmp_path / "log") as process:
        os.kill(process.pid, received)
        assert process.wait(20) == 0

    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_sweep_that_often_needs_no_events(server, deploy, tmp_path, monkeypatch):
    """Where no event stream can be had, sweeps keep order and progress."""
    queue = deploy(limit=1)
    runs = queue.park(2)
    with watching(server, tmp_path / "log", "--sweep-seconds", "0.5"):
        for run in runs:
            wait_until(lambda run=run: queue.state_of(run) == "Late", what="promotion by a sweep")
            queue.start(run)
            queue.finish(run)

    assert queue.states(runs) == ["Completed"] * 2

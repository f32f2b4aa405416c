"""The API server is killed in the middle of runs and started again; a runner and a watcher outlive it.

Nothing is lost, nothing doubled, and both queues move on.
"""

import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import fill_free_slots_sync, park_sync
from ordered_queue.embedded import free_port, prefect_server
from ordered_queue.runs import ParkedRun
from ordered_queue.testing import assert_in_order
from tests.server.deployed import Deployed, wait_until
from tests.server.processes import running
from tests.server.recording import executed
from tests.server.slots import counter_of
from tests.server.watching import NEVER, watching

NAME = "restarted"


@dataclass
class Restarted:
    """What was in the middle of something when the server went away.

    Attributes:
        served: a queue with limit 1 in real processes, of whose two runs the first was executed.
        parked: its runs.
        record: where they write that they are executed.
        by_hand: a queue with limit 2, of which two runs were Running.
        moved: its runs.
        watcher_log: what the watcher said.
    """

    served: Deployed
    parked: list[ParkedRun]
    record: Path
    by_hand: Deployed
    moved: list[ParkedRun]
    watcher_log: Path


def client_of(server):
    with temporary_settings(updates={PREFECT_API_URL: server.api_url}):
        return get_client(httpx_settings={"timeout": 33}, sync_client=True)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("restarted")
    home, record, watcher_log, port = folder / "home", folder / "record", folder / "watcher.log", free_port()
    home.mkdir()
    serve = ("-m", "tests.server.recording", "queued", NAME)
    with ExitStack() as outliving:
        with prefect_server(home, port=port) as server, client_of(server) as client:
            outliving.enter_context(
                running(server, folder / "log", *serve, ready=b"Start-up recovery", PREFECT_RUNNER_POLL_FREQUENCY="1")
            )
            outliving.enter_context(watching(server, watcher_log, "--sweep-seconds", NEVER))
            by_hand = Deployed.create(client, 2)
            moved = by_hand.park(5)
            for run in moved[:2]:
                by_hand.start(run)
            served = Deployed(client, client.read_deployment_by_name(f"queued/{NAME}").id, f"queued/{NAME}")
            parked = park_sync(served.id, [{"record": str(record), "seconds": 3}] * 2, client=client)
            wait_until(lambda: executed(record), 60, "the first run's start")
            os.killpg(server.pid, signal.SIGKILL)
        with prefect_server(home, port=port) as server, client_of(server) as client:
            by_hand.client = served.client = client
            yield Restarted(served, parked, record, by_hand, moved, watcher_log)
            outliving.close()  # while there is a server: without one they take their time


def test_runs_go_on_once_and_in_order_when_the_server_is_killed_and_started_again(restarted):
    queue, parked = restarted.served, restarted.parked
    wait_until(lambda: set(queue.states(parked)) == {"Completed"}, 180, "the end of all runs")

    assert executed(restarted.record) == [str(run.flow_run_id) for run in parked]
    assert_in_order([queue.read(run.flow_run_id) for run in parked], limit=1)


def is_leased(queue, run):
    """Whether the server still knows the run's lease."""
    lease_id = queue.read(run.flow_run_id).state.state_details.deployment_concurrency_lease_id
    path = f"/v2/concurrency_limits/leases/{lease_id}/renew"
    try:
        queue.client.request("POST", path, json={"lease_duration": 60})
    except PrefectHTTPStatusError as error:
        if error.response.status_code != 410:
            raise
        return False
    return True


def test_the_watcher_connects_again_and_the_queue_moves_on_after_a_restart_in_the_middle_of_runs(restarted, later):
    """Case 12: the leases were in the server's memory and are gone; the runs' ends free their slots all the same."""
    queue, runs = restarted.by_hand, restarted.moved
    assert not is_leased(queue, runs[0])
    assert queue.states(runs) == ["Running", "Running", "Parked", "Parked", "Parked"]
    # The limit: were their processes dead, nobody could tell. No lease is left to lapse, and the counter stays.
    later(60)
    assert counter_of(queue) == 2
    assert fill_free_slots_sync(queue.client, queue.id) == 0
    later(0)

    queue.finish(runs[0])
    wait_until(lambda: queue.state_of(runs[2]) == "Late", 60, "promotion after the server came back")
    queue.start(runs[2])
    queue.set_state(runs[1], "CRASHED")
    wait_until(lambda: queue.state_of(runs[3]) == "Late", 60, "promotion after the other one crashed")
    queue.start(runs[3])

    assert is_leased(queue, runs[3])
    assert queue.states(runs) == ["Completed", "Crashed", "Running", "Running", "Parked"]
    assert counter_of(queue) == 2
    assert "sweeping meanwhile" in restarted.watcher_log.read_text()

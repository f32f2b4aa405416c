"""The API server is restarted in the middle of runs: nothing lost, nothing doubled, and the queue moves on."""

import os
import signal
from contextlib import ExitStack, contextmanager

from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import park_sync
from ordered_queue.embedded import free_port, prefect_server
from ordered_queue.testing import assert_in_order
from tests.server.deployed import Deployed, wait_until
from tests.server.processes import running
from tests.server.recording import executed

NAME = "restarted"
RUNS = 2


def serving(server, log_path):
    command = ("-m", "tests.server.recording", "queued", NAME)
    return running(server, log_path, *command, ready=b"Start-up recovery", PREFECT_RUNNER_POLL_FREQUENCY="1")


@contextmanager
def queue_on(server):
    with (
        temporary_settings(updates={PREFECT_API_URL: server.api_url}),
        get_client(httpx_settings={"timeout": 33}, sync_client=True) as client,
    ):
        yield Deployed(client, client.read_deployment_by_name(f"queued/{NAME}").id, f"queued/{NAME}")


def test_runs_go_on_once_and_in_order_when_the_server_is_killed_and_started_again(tmp_path):
    home, port, record = tmp_path / "home", free_port(), tmp_path / "record"
    home.mkdir()
    with ExitStack() as later:  # the runner outlives its server
        with prefect_server(home, port=port) as server:
            later.enter_context(serving(server, tmp_path / "log"))
            with queue_on(server) as queue:
                parked = park_sync(queue.id, [{"record": str(record), "seconds": 3}] * RUNS, client=queue.client)
                wait_until(lambda: executed(record), 60, "the first run's start")
            os.killpg(server.pid, signal.SIGKILL)
        with prefect_server(home, port=port) as server, queue_on(server) as queue:
            wait_until(lambda: set(queue.states(parked)) == {"Completed"}, 180, "the end of all runs")
            runs = [queue.read(run.flow_run_id) for run in parked]
            later.close()

    assert executed(record) == [str(run.flow_run_id) for run in parked]
    assert_in_order(runs, limit=1)

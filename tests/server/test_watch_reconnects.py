"""The server is stopped in the middle of runs and started again; the watcher outlives it."""

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import fill_free_slots_sync
from ordered_queue.embedded import free_port, prefect_server
from tests.server.deployed import Deployed, wait_until
from tests.server.slots import counter_of
from tests.server.watching import NEVER, watching


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    """A queue with limit 2 of which two runs were Running when the server went away; and the watcher's log."""
    folder = tmp_path_factory.mktemp("restarted")
    home, log, port = folder / "home", folder / "log", free_port()
    home.mkdir()
    with prefect_server(home, port=port) as server:
        stack = watching(server, log, "--sweep-seconds", NEVER)
        stack.__enter__()
        with client_of(server) as client:
            queue = Deployed.create(client, 2)
            runs = queue.park(5)
            for run in runs[:2]:
                queue.start(run)
    try:
        with prefect_server(home, port=port) as server, client_of(server) as client:
            yield Deployed(client, queue.id, queue.name), runs, log
    finally:
        stack.__exit__(None, None, None)


def client_of(server):
    with temporary_settings(updates={PREFECT_API_URL: server.api_url}):
        return get_client(httpx_settings={"timeout": 33}, sync_client=True)


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
    queue, runs, log = restarted
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
    assert "sweeping meanwhile" in log.read_text()

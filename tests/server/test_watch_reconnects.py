"""The watcher outlives its server."""

from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue.embedded import free_port, prefect_server
from tests.server.deployed import Deployed, wait_until
from tests.server.watching import NEVER, watching


def test_the_watcher_connects_again_when_the_server_was_away(tmp_path):
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    with prefect_server(home, port=port) as server:
        stack = watching(server, tmp_path / "log", "--sweep-seconds", NEVER)
        stack.__enter__()
    try:
        with (
            prefect_server(home, port=port) as server,
            temporary_settings(updates={PREFECT_API_URL: server.api_url}),
            get_client(httpx_settings={"timeout": 33}, sync_client=True) as client,
        ):
            queue = Deployed.create(client, 1)
            runs = queue.park(2)
            queue.start(runs[0])
            queue.finish(runs[0])

            wait_until(lambda: queue.state_of(runs[1]) == "Late", 60, "promotion after the server came back")
    finally:
        stack.__exit__(None, None, None)
    assert "sweeping meanwhile" in (tmp_path / "log").read_text()

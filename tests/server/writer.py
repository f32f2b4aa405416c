"""What a process does that keeps the server writing: it creates runs of a deployment of its own and moves them."""

import contextlib
import time

from prefect.client.orchestration import SyncPrefectClient

PAUSE_SECONDS = 0.02


def write(connection, api_url, deployment_id):
    """Until it is ended."""
    with SyncPrefectClient(api_url, httpx_settings={"timeout": 30}) as client:
        connection.send("ready")
        while True:
            time.sleep(PAUSE_SECONDS)
            # A busy SQLite answers 503; whoever is tested meets that too.
            with contextlib.suppress(Exception):
                run = client.request("POST", f"/deployments/{deployment_id}/create_flow_run", json={}).json()["id"]
                for state in ("PENDING", "RUNNING", "COMPLETED"):
                    client.request("POST", f"/flow_runs/{run}/set_state", json={"state": {"type": state}})

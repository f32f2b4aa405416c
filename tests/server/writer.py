"""A process that keeps the server writing: it creates runs of a deployment of its own and moves them, until stopped."""

import contextlib
import sys
import time
from uuid import UUID

from prefect.client.orchestration import get_client

PAUSE_SECONDS = 0.02
deployment_id = UUID(sys.argv[1])

with get_client(httpx_settings={"timeout": 30}, sync_client=True) as client:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        time.sleep(PAUSE_SECONDS)
        # A busy SQLite answers 503; whoever is tested meets that too.
        with contextlib.suppress(Exception):
            run = client.request("POST", f"/deployments/{deployment_id}/create_flow_run", json={}).json()["id"]
            for state in ("PENDING", "RUNNING", "COMPLETED"):
                client.request("POST", f"/flow_runs/{run}/set_state", json={"state": {"type": state}})

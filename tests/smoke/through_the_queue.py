"""Park, promote, hand over and sweep once, on a server of one's own; exits non-zero if anything is not as promised.

It imports nothing but the package and Prefect, so that it runs where no test runner is installed.
"""

import sys
from pathlib import Path
from uuid import UUID

import prefect
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import fill_free_slots_sync, park_sync, sweep_sync
from ordered_queue.embedded import prefect_server


def check(is_so: bool, what: str) -> None:
    if not is_so:
        sys.exit(f"not so on Prefect {prefect.__version__}: {what}")


def set_state(client: SyncPrefectClient, run_id: UUID, state: dict) -> str:
    return client.request("POST", f"/flow_runs/{run_id}/set_state", json={"state": state}).json()["status"]


def names(client: SyncPrefectClient, runs: list) -> list:
    return [client.read_flow_run(run.flow_run_id).state.name for run in runs]


def through_the_queue(client: SyncPrefectClient) -> None:
    flow_id = client.request("POST", "/flows/", json={"name": "load"}).json()["id"]
    body = {"name": "nightly", "flow_id": flow_id, "concurrency_limit": 1}
    deployment_id = UUID(client.request("POST", "/deployments/", json=body).json()["id"])

    runs = park_sync("load/nightly", [{"n": n} for n in range(120)], submission_key="s", client=client)
    check(names(client, runs[:3]) == ["Late", "Parked", "Parked"], "a submission fills the free slot")
    again = park_sync("load/nightly", [{"n": n} for n in range(120)], submission_key="s", client=client)
    check([r.flow_run_id for r in again] == [r.flow_run_id for r in runs], "the same key adds nothing twice")

    first, second, third = (run.flow_run_id for run in runs[:3])
    check(set_state(client, first, {"type": "PENDING"}) == "ACCEPT", "a promoted run is taken")
    check(set_state(client, first, {"type": "RUNNING"}) == "ACCEPT", "a promoted run runs")
    check(fill_free_slots_sync(client, deployment_id) == 0, "an occupied slot is not given away")
    late = {"type": "SCHEDULED", "name": "Late"}
    check(set_state(client, first, late) == "REJECT", "a running run is not promoted")
    check(set_state(client, first, {"type": "COMPLETED"}) == "ACCEPT", "a run ends")
    check(set_state(client, first, late) == "REJECT", "an ended run is not promoted")
    check(fill_free_slots_sync(client, deployment_id) == 1, "the freed slot is handed over")
    check(set_state(client, second, late) == "REJECT", "a promoted run is not promoted twice")
    set_state(client, second, {"type": "CANCELLING"})
    check([queue.promoted for queue in sweep_sync(client)] == [1], "a sweep fills what a cancellation freed")
    check(names(client, runs[:4]) == ["Completed", "Cancelled", "Late", "Parked"], "order is kept")
    check(client.read_flow_run(third).run_count == 0, "nothing ran by itself")


with prefect_server(Path(sys.argv[1])) as server, temporary_settings(updates={PREFECT_API_URL: server.api_url}):
    with get_client(sync_client=True) as opened:
        through_the_queue(opened)
sys.stdout.write(f"through the queue on Prefect {prefect.__version__}\n")

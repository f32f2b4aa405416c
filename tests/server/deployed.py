"""A deployment on the test's server, whose runs the test moves by hand as a runner would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType

from ordered_queue import PARKED_TAG, park_sync
from ordered_queue.runs import ParkedRun


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Wait for a condition, with a bound. What is long in coming is looked for less often: each look is a request."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.3)


@dataclass
class Deployed:
    """One deployment, and what a runner, a person or a submitter does to its runs."""

    client: SyncPrefectClient
    id: UUID
    name: str

    @classmethod
    def create(cls, client: SyncPrefectClient, limit: int | None, strategy: str | None = None, **fields) -> Deployed:
        flow_name = f"flow-{uuid4().hex[:12]}"
        flow_id = client.request("POST", "/flows/", json={"name": flow_name}).json()["id"]
        body = {"name": "queue", "flow_id": flow_id, "enforce_parameter_schema": False, **fields}
        if limit is not None:
            body["concurrency_limit"] = limit
        if strategy is not None:
            body["concurrency_options"] = {"collision_strategy": strategy}
        made = client.request("POST", "/deployments/", json=body).json()
        return cls(client, UUID(made["id"]), f"{flow_name}/queue")

    def park(self, count: int, **options) -> list[ParkedRun]:
        return park_sync(self.id, [{"number": number} for number in range(count)], client=self.client, **options)

    def read(self, flow_run_id: UUID) -> FlowRun:
        return self.client.read_flow_run(flow_run_id)

    def state_of(self, run: ParkedRun | UUID) -> str:
        """The name of the run's state."""
        found = self.read(run if isinstance(run, UUID) else run.flow_run_id)
        assert found.state is not None
        return found.state.name or ""

    def states(self, runs: list[ParkedRun] | list[UUID]) -> list[str]:
        """The names of the runs' states; "gone" for a run that was deleted."""
        ids = [run if isinstance(run, UUID) else run.flow_run_id for run in runs]
        body = {"flow_runs": {"id": {"any_": [str(run_id) for run_id in ids]}}, "limit": 200}
        found = self.client.request("POST", "/flow_runs/filter", json=body).json()
        by_id = {UUID(run["id"]): run["state_name"] for run in found}
        return [by_id.get(run_id, "gone") for run_id in ids]

    def set_state(self, run: ParkedRun | UUID, type: StateType | str, *, force: bool = False, **state) -> str:  # noqa: A002  # Prefect's word
        """Propose a state; the status that the server answers with."""
        run_id = run if isinstance(run, UUID) else run.flow_run_id
        body = {"state": {"type": getattr(type, "value", type), **state}, "force": force}
        return self.client.request("POST", f"/flow_runs/{run_id}/set_state", json=body).json()["status"]

    def start(self, run: ParkedRun | UUID) -> None:
        """Take a run as a runner does. It must find a slot."""
        assert self.set_state(run, "PENDING") == "ACCEPT"
        assert self.set_state(run, "RUNNING") == "ACCEPT"

    def finish(self, run: ParkedRun | UUID) -> None:
        assert self.set_state(run, "COMPLETED") == "ACCEPT"

    def cancel(self, run: ParkedRun | UUID) -> None:
        """Cancel a run that has not started, as the UI does."""
        self.set_state(run, "CANCELLING")

    def delete(self, run: ParkedRun | UUID) -> None:
        run_id = run if isinstance(run, UUID) else run.flow_run_id
        self.client.request("DELETE", f"/flow_runs/{run_id}")

    def create_outsider(self, **state) -> UUID:
        """A run that does not come through the queue, due now unless said otherwise."""
        body = {"state": {"type": "SCHEDULED", **state}} if state else {}
        made = self.client.request("POST", f"/deployments/{self.id}/create_flow_run", json=body).json()
        return UUID(made["id"])

    def create_outsider_with(self, parameters: dict) -> UUID:
        """A run that does not come through the queue, due now, with parameters."""
        body = {"parameters": parameters}
        made = self.client.request("POST", f"/deployments/{self.id}/create_flow_run", json=body).json()
        return UUID(made["id"])

    def create_waiting(self, count: int) -> list[UUID]:
        """Runs that wait, made without the queue's doing (and so without a fill)."""
        state = {"type": "SCHEDULED", "name": "Parked", "state_details": {"scheduled_time": "2100-01-01T00:00:00Z"}}
        made: list[UUID] = []
        while len(made) < count:
            body = [{"state": state, "tags": [PARKED_TAG]}] * min(100, count - len(made))
            path = f"/deployments/{self.id}/create_flow_run/bulk"
            results = self.client.request("POST", path, json=body).json()["results"]
            # On a busy SQLite server some or all rows of a chunk fail, inside a 200 answer.
            made += [UUID(result["flow_run_id"]) for result in results if result["status"] == "CREATED"]
        return made

    def set_limit(self, limit: int | None) -> None:
        """Set the limit as an operator does: a deployment takes no 0, its global limit does."""
        if limit == 0:
            limit_id = self.client.read_deployment(self.id).global_concurrency_limit.id
            self.client.request("PATCH", f"/v2/concurrency_limits/{limit_id}", json={"limit": 0})
            return
        self.client.request("PATCH", f"/deployments/{self.id}", json={"concurrency_limit": limit})

    def history(self, run: ParkedRun | UUID) -> list[str]:
        """The names of all states that the run ever had, in order."""
        run_id = run if isinstance(run, UUID) else run.flow_run_id
        states = self.client.request("GET", "/flow_run_states/", params={"flow_run_id": str(run_id)}).json()
        return [state["name"] for state in sorted(states, key=lambda state: state["timestamp"])]


def give_work_pool(queue: Deployed) -> None:
    """Deploy again with a work pool, as one who had served it: a run that is there keeps to no work queue."""
    body = {"name": f"pool-{uuid4().hex[:8]}", "type": "process"}
    pool = queue.client.request("POST", "/work_pools/", json=body).json()
    queue.client.request("PATCH", f"/deployments/{queue.id}", json={"work_pool_name": pool["name"]})

"""Where the crash bounds are measured: a server on PostgreSQL, a runner for each flow, a watcher, all killable."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

from tests import conftest as _conftest  # first: it takes the caller's own settings out  # noqa: F401  # isort: skip
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from bench.soak_cluster import ApiServer
from ordered_queue import park_sync
from ordered_queue.embedded import free_port, stop
from tests.conftest import ROOT
from tests.postgresql import WITHOUT_SYNCS, postgresql, wait_until_ready
from tests.postgresql import start as start_postgresql
from tests.server.deployed import Deployed, wait_until

POLLS = {"PREFECT_RUNNER_POLL_FREQUENCY": "1", "PREFECT_WORKER_QUERY_SECONDS": "1"}
QUICK = {**POLLS, "PREFECT_LOGGING_LEVEL": "INFO"}
POOL = "refresh"


@dataclass
class Queue:
    """A queue with limit 1 and who serves it.

    Attributes:
        name: "short" (with hooks), "plain" (without), or "by hand" (nobody serves it).
        deployed: the deployment.
        journal: where its runs write that they are executed.
    """

    name: str
    deployed: Deployed
    journal: Path
    parked: list[object] = field(default_factory=list)

    def run_one_of_two(self, seconds: float) -> tuple[tuple[object, object], int]:
        """Park two runs and wait until the first is executed: the runs, and its process."""
        before = self._executed()
        rows = [{"journal": str(self.journal), "seconds": each} for each in (seconds, 0)]
        first, second = park_sync(self.deployed.id, rows, client=self.deployed.client)
        self.parked = [first, second]
        wait_until(lambda: len(self._executed()) > len(before), 120, "the first run's start")
        return (first, second), int(self._executed()[-1].split()[2])

    def _executed(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def end_of_first(self) -> datetime:
        """When the first of the two had ended."""
        first = self.parked[0]
        wait_until(lambda: self.deployed.state_of(first) == "Completed", 60, "the first run's end")
        return self.deployed.read(first.flow_run_id).state.timestamp

    def promotion_of(self, run: object, most_seconds: float) -> datetime:
        """When a run was promoted; waits for it."""
        run_id = getattr(run, "flow_run_id", run)
        client = self.deployed.client

        def promotions() -> list[str]:
            states = client.request("GET", "/flow_run_states/", params={"flow_run_id": str(run_id)}).json()
            return [state["timestamp"] for state in states if state["name"] == "Late"]

        wait_until(promotions, most_seconds, "promotion")
        return datetime.fromisoformat(min(promotions()).replace("Z", "+00:00"))

    def clear(self) -> None:
        """End all that is there, as an operator would."""
        client, body = self.deployed.client, {"deployments": {"id": {"any_": [str(self.deployed.id)]}}}
        kinds = ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]
        body["flow_runs"] = {"state": {"type": {"any_": kinds}}}

        def left() -> list[UUID]:
            return [UUID(run["id"]) for run in client.request("POST", "/flow_runs/filter", json=body).json()]

        for run_id in left():
            self.deployed.set_state(run_id, "CANCELLING")
        try:
            wait_until(lambda: not left(), 20, "an empty queue")
        except AssertionError:
            for run_id in left():
                self.deployed.set_state(run_id, "CANCELLED", force=True)


@dataclass
class Place:
    """The processes."""

    folder: Path
    api: ApiServer
    database: Path
    client: SyncPrefectClient
    queues: dict[str, Queue] = field(default_factory=dict)
    runners: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    watcher: subprocess.Popen[bytes] | None = None
    own_database: subprocess.Popen[bytes] | None = None

    def start(self, name: str, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start a process that uses the server, with these environment variables beside."""
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**self.api.running.env, **QUICK, **settings},
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_runner(self, queue: Queue | str, **settings: str) -> None:
        """Serve a flow, with these environment variables; waits until it is polled for."""
        name = queue if isinstance(queue, str) else queue.name
        without_hooks = ["plain"] if name == "plain" else []
        self.runners[name] = self.start(name, "bench.soak_flows", "bounds", "1", *without_hooks, **settings)

        def is_polled() -> bool:
            found = self.client.request("POST", "/deployments/filter", json={}).json()
            return any((each["entrypoint"] or "").endswith(f":{name}") and each["status"] == "READY" for each in found)

        wait_until(is_polled, 90, "the runner's first poll")

    def supervise(self, queue: Queue) -> None:
        """Start a runner again that has ended, as whoever supervises it would."""
        if self.runners[queue.name].poll() is not None:
            self.start_runner(queue)

    def kill_runner(self, queue: Queue) -> None:
        """Kill a runner with the flows that it started."""
        os.killpg(self.runners[queue.name].pid, signal.SIGKILL)
        self.runners[queue.name].wait()

    def start_watcher(self) -> None:
        """Start the watcher, with its defaults; waits until it follows events."""
        log = self.folder / "watcher.log"
        seen = log.read_text().count("following the event stream") if log.exists() else 0
        self.watcher = self.start("watcher", "ordered_queue.cli", "watch")
        wait_until(lambda: log.read_text().count("following the event stream") > seen, 90, "the watcher")

    def stop_watcher(self, kill: bool = False) -> None:
        """End the watcher, if there is one."""
        if self.watcher is not None:
            if kill:
                self.watcher.kill()
            stop(self.watcher)
            self.watcher = None

    def start_refresh(self) -> None:
        """Deploy the refresh with its triggers, as a user would, and start a worker for it; waits until it polls."""
        project = self.folder / "project"
        (project / "flows").mkdir(parents=True)
        for name in ("deployments.yaml", "flows/refresh.py"):
            shutil.copy(ROOT / name, project / name)
        make = ["work-pool", "create", POOL, "--type", "process"]
        deploy = ["--no-prompt", "deploy", "--prefect-file", "deployments.yaml", "--all", "--pool", POOL]
        for arguments in (make, deploy):
            command = [sys.executable, "-m", "prefect", *arguments]
            # What they say is no part of the table.
            subprocess.run(command, env=dict(self.api.running.env), cwd=project, stdout=sys.stderr, check=True)
        self.runners[POOL] = self.start(POOL, "prefect", "worker", "start", "--pool", POOL)
        log = self.folder / f"{POOL}.log"
        wait_until(lambda: "started!" in log.read_text(), 90, "the refresh's worker")

    def queue_by_hand(self, limit: int) -> Queue:
        """A queue that nobody serves: its runs are moved by hand, as a runner would."""
        return Queue("by hand", Deployed.create(self.client, limit), self.folder / "none")

    def restart_database(self, absent_seconds: float) -> None:
        """Stop PostgreSQL as an administrator does, and start it again after a while; waits until it is ready."""
        pid = int((self.database / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        if self.own_database is not None:
            self.own_database.wait(30)
        wait_until(lambda: not (self.database / "data" / "postmaster.pid").exists(), 30, "the database's end")
        time.sleep(absent_seconds)
        self.own_database = start_postgresql(self.database, WITHOUT_SYNCS)
        wait_until_ready(self.database, self.own_database)

    def stop(self) -> None:
        """End what was started here."""
        self.stop_watcher()
        for runner in self.runners.values():
            stop(runner)
        self.api.stop()
        if self.own_database is not None:
            self.own_database.send_signal(signal.SIGINT)
            self.own_database.wait(30)


@contextmanager
def placed(folder: Path) -> Generator[Place, None, None]:
    """Start all but the watcher."""
    with ExitStack() as stack:
        url = stack.enter_context(postgresql())
        home = folder / "home"
        home.mkdir()
        settings = {"PREFECT_API_DATABASE_CONNECTION_URL": url, "PREFECT_LOGGING_TO_API_ENABLED": "false"}
        api = ApiServer("api", home, free_port(), settings)
        api.start()
        stack.enter_context(temporary_settings(updates={PREFECT_API_URL: api.running.api_url}))
        client = stack.enter_context(get_client(httpx_settings={"timeout": 60}, sync_client=True))
        place = Place(folder, api, Path(url.split("host=")[1]), client)
        stack.callback(place.stop)
        for name in ("short", "plain"):
            place.start_runner(name)
            deployment = client.read_deployment_by_name(f"{name}/bounds")
            deployed = Deployed(client, deployment.id, f"{name}/bounds")
            place.queues[name] = Queue(name, deployed, folder / f"{name}.journal")
        yield place

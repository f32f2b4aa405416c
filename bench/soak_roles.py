"""The processes of the soak that are small enough to be written here; each may be killed at any moment.

python -m bench.soak_roles runner DEPLOYMENT_ID JOURNAL
python -m bench.soak_roles submitter NAME DEPLOYMENT_ID JOURNAL ROWS MOST_WAITING [PARAMETERS]
python -m bench.soak_roles operator DEPLOYMENT_ID JOURNAL
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient, get_client

from ordered_queue import PARKED_TAG, fill_free_slots_sync, park_sync, sweep_sync

AT_ONCE = 2
"""How many runs one light runner executes at a time."""

POLL_SECONDS = 0.3
OPERATE_SECONDS = 5.0

stopping = threading.Event()


class Journal:
    """A file that many processes append lines to, each in one write."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def tell(self, *words: object) -> None:
        """Append one line."""
        os.write(self._file, (" ".join(str(word) for word in words) + "\n").encode())


def again_and_again(journal: Journal, work: Callable[[SyncPrefectClient], object], pause_seconds: float) -> None:
    """Do the work until told to stop; an error is written down, and the work goes on."""
    while not stopping.is_set():
        try:
            with get_client(httpx_settings={"timeout": 30}, sync_client=True) as client:
                while not stopping.is_set():
                    work(client)
                    stopping.wait(pause_seconds)
        except Exception as error:
            journal.tell("error", sys.argv[1], type(error).__name__, str(error).splitlines()[:1])
            stopping.wait(1.0)


def set_state(client: SyncPrefectClient, run_id: str, **state: Any) -> bool:
    """Propose a state as Prefect's engine does, with a transition id: whether the run is in it now.

    When the answer was lost, the client asks again by itself; the server then rejects, and answers with the state that
    the first request made.
    """
    transition_id = str(uuid4())
    body = {"state": {**state, "state_details": {"transition_id": transition_id}}}
    answer = client.request("POST", f"/flow_runs/{run_id}/set_state", json=body).json()
    made = answer.get("state") or {}
    is_repeated = (made.get("state_details") or {}).get("transition_id") == transition_id
    return answer["status"] == "ACCEPT" or is_repeated


def runner(deployment_id: str, path: str, number: str, runners: str) -> None:
    """Take due runs by the route that Prefect's runner polls, and execute each: Pending, Running, Completed, hook.

    Each run belongs to one thread of one runner. Prefect accepts Pending for a run that is Completed (a rerun), so
    where two take from one list, and a run takes less time than a poll, the slower would run it again: true of any two
    pollers, and nothing that a queue can help.
    """
    journal = Journal(path)
    shares = int(runners) * AT_ONCE

    def poll_for(share: int) -> Callable[[SyncPrefectClient], None]:
        def poll(client: SyncPrefectClient) -> None:
            now = datetime.now(timezone.utc).isoformat()
            body = {"deployment_ids": [deployment_id], "scheduled_before": now, "limit": 50}
            due = client.request("POST", "/deployments/get_scheduled_flow_runs", json=body).json()
            mine = [run["id"] for run in due if UUID(run["id"]).int % shares == share]
            for run_id in mine[:1]:
                execute(client, run_id)

        return poll

    def execute(client: SyncPrefectClient, run_id: str) -> None:
        if not set_state(client, run_id, type="PENDING"):
            return
        if not set_state(client, run_id, type="RUNNING"):
            set_state(client, run_id, type="CANCELLED")  # it was told to end; nothing else is accepted then
            return
        journal.tell("executed", run_id, os.getpid())
        time.sleep(random.uniform(0.05, 0.4))
        if not set_state(client, run_id, type="COMPLETED"):
            set_state(client, run_id, type="CANCELLED")
        fill_free_slots_sync(client, UUID(deployment_id))

    own = range(int(number) * AT_ONCE, (int(number) + 1) * AT_ONCE)
    threads = [threading.Thread(target=again_and_again, args=(journal, poll_for(s), POLL_SECONDS)) for s in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def submitter(name: str, deployment_id: str, path: str, rows: str, most_waiting: str, parameters: str = "{}") -> None:
    """Park one submission after the other while not too much waits; after a kill, the one it was at is repeated."""
    journal = Journal(path)
    begun = [line.split()[1] for line in Path(path).read_text().splitlines() if line.startswith(f"begun {name}/")]
    parked = {line.split()[1] for line in Path(path).read_text().splitlines() if line.startswith(f"parked {name}/")}
    unfinished = [key for key in begun if key not in parked]
    waiting = {
        "deployments": {"id": {"any_": [deployment_id]}},
        "flow_runs": {"tags": {"all_": [PARKED_TAG]}, "state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    count = int(rows)

    def submit(client: SyncPrefectClient) -> None:
        if not unfinished:
            if client.request("POST", "/flow_runs/count", json=waiting).json() > int(most_waiting):
                return
            unfinished.append(f"{name}/{len(begun)}")
            begun.append(unfinished[0])
            journal.tell("begun", unfinished[0], deployment_id, count)
        given = [json.loads(parameters)] * count
        runs = park_sync(UUID(deployment_id), given, submission_key=unfinished[0], client=client)
        journal.tell("parked", unfinished.pop(), len({run.flow_run_id for run in runs}))

    again_and_again(journal, submit, 1.0)
    if unfinished:  # it was told to stop in the middle
        with get_client(httpx_settings={"timeout": 30}, sync_client=True) as client:
            submit(client)


def operator(deployment_id: str, path: str) -> None:
    """Sweep now and then, and cancel one of the next runs of a queue now and then."""
    journal = Journal(path)
    head = {
        "deployments": {"id": {"any_": [deployment_id]}},
        "flow_runs": {"tags": {"all_": [PARKED_TAG]}, "state": {"type": {"any_": ["SCHEDULED"]}}},
        "sort": "NEXT_SCHEDULED_START_TIME_ASC",
        "limit": 10,
    }

    def operate(client: SyncPrefectClient) -> None:
        for queue in sweep_sync(client):
            if queue.problem:
                journal.tell("error", "operator", queue.problem.splitlines()[0])
        found = client.request("POST", "/flow_runs/filter", json=head).json()
        if found:
            chosen = random.choice(found)["id"]
            journal.tell("cancelling", chosen)
            set_state(client, chosen, type="CANCELLING")

    again_and_again(journal, operate, OPERATE_SECONDS)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    {"runner": runner, "submitter": submitter, "operator": operator}[sys.argv[1]](*sys.argv[2:])

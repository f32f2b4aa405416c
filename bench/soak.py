"""Everything at once for some minutes, with kill -9 at random: what became of every run.

    python -m bench.soak --minutes 10

Two Prefect API servers on one PostgreSQL, with Redis between them. Three queues: *light*, whose runs are executed by
light runners (a loop that takes due runs by Prefect's own route, proposes Pending, Running and Completed, and fills, as
a flow's hook does: thousands of runs, where a real flow's start alone costs seconds of CPU); *served* and *worker*,
real flows in real processes under `ordered_queue.serve` and a worker. Several submitters, watchers and an operator
who sweeps and cancels. Killed are flows, light runners, the serving process, the worker, watchers, submitters, the
operator, and an API server; each comes back. Then nothing is killed any more, and the queues drain.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx

from bench.environment import ROOT, end_on_sigterm
from bench.soak_cluster import Cluster, cluster
from bench.soak_crew import Crew, Member, killers
from bench.soak_report import report
from bench.soak_verdict import Entry, History, Verdict, judge

POOL = "soak"
TICK_SECONDS = 0.5
SUBMITTERS = {"light": ("a", "b", "c"), "served": ("d",), "worker": ("e",)}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Kill everything, lose nothing.")
    parser.add_argument("--minutes", type=float, default=10, help="for how long to submit and kill (10)")
    parser.add_argument("--drain-minutes", type=float, default=15, help="for how long to wait for the end (15)")
    parser.add_argument("--kill-every", type=float, default=8, help="seconds between kills, on average (8)")
    parser.add_argument("--light-limit", type=int, default=8, help="concurrency limit of the light queue (8)")
    parser.add_argument("--real-limit", type=int, default=2, help="concurrency limit of each real queue (2)")
    parser.add_argument("--runners", type=int, default=4, help="light runners, two runs at a time each (4)")
    parser.add_argument("--watchers", type=int, default=1, help="how many watchers, beside hooks and sweeps (1)")
    parser.add_argument("--worker-type", default="process", help="the worker's type (process)")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the soak and print its table; 0 if all that must not happen did not."""
    options = arguments(given)
    end_on_sigterm()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="ordered-queue-soak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with cluster(folder) as servers:
            crew = Crew(servers, folder)
            try:
                queues = start_everybody(crew, options)
                begun = time.monotonic()
                kill_and_tend(crew, options)
                drained = drain(crew, queues, options.drain_minutes * 60)
            finally:
                crew.stop_all()
            verdicts = asyncio.run(read_and_judge(servers, crew, queues, options))
            text, is_good = report(verdicts, crew, options, time.monotonic() - begun, drained)
    sys.stdout.write(text)
    return 0 if is_good else 1


def start_everybody(crew: Crew, options: argparse.Namespace) -> dict[str, str]:
    """Deploy the three queues and start all processes; the queues' deployment ids."""
    python, folder = sys.executable, crew.folder
    role = [python, "-m", "bench.soak_roles"]
    journals = {name: folder / f"{name}.journal" for name in SUBMITTERS}
    for journal in (*journals.values(), folder / "submitters.journal", folder / "errors.journal"):
        journal.touch()
    polls = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    quick = {**polls, "PREFECT_LOGGING_LEVEL": "INFO"}
    work = [python, "-m", "prefect", "worker", "start", "--type", options.worker_type, "--pool", POOL]
    crew.add(Member("worker", "worker", work, folder, quick))
    serve = [python, "-m", "bench.soak_flows", "served", str(options.real_limit)]
    crew.add(Member("serve", "serve", serve, ROOT, quick))
    wait_for_text(crew, "worker", "started!")
    wait_for_text(crew, "serve", "Start-up recovery")
    with api(crew.cluster) as client:
        queues = {
            "light": deploy(client, "light", options.light_limit),
            "served": client.get("/deployments/name/short/served").raise_for_status().json()["id"],
            "worker": deploy(client, "short", options.real_limit, for_worker()),
        }
    for number in range(options.runners):
        command = [*role, "runner", queues["light"], str(journals["light"]), str(number), str(options.runners)]
        crew.add(Member(f"runner-{number}", "light runner", command, ROOT))
    for number in range(options.watchers):
        command = [python, "-m", "ordered_queue.cli", "watch", "--sweep-seconds", "30"]
        crew.add(Member(f"watcher-{number}", "watcher", command, ROOT))
    crew.add(Member("operator", "operator", [*role, "operator", queues["light"], str(folder / "errors.journal")], ROOT))
    for queue, names in SUBMITTERS.items():
        given = {} if queue == "light" else {"journal": str(journals[queue]), "seconds": 1.0}
        sizes = ["60", "250"] if queue == "light" else ["3", "6"]
        for name in names:
            command = [*role, "submitter", name, queues[queue], str(folder / "submitters.journal"), *sizes]
            crew.add(Member(f"submitter-{name}", "submitter", [*command, json.dumps(given)], ROOT))
    return queues


def api(servers: Cluster) -> httpx.Client:
    """A client of one of the API servers that are up."""
    return httpx.Client(base_url=servers.env()["PREFECT_API_URL"], timeout=30)


def deploy(client: httpx.Client, name: str, limit: int, more: dict[str, Any] | None = None) -> str:
    """Make a deployment by hand."""
    flow_id = client.post("/flows/", json={"name": name}).raise_for_status().json()["id"]
    body = {"name": "by-hand", "flow_id": flow_id, "concurrency_limit": limit, "enforce_parameter_schema": False}
    return client.post("/deployments/", json={**body, **(more or {})}).raise_for_status().json()["id"]


def for_worker() -> dict[str, Any]:
    """Where a worker finds the flow."""
    step = {"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}
    return {"work_pool_name": POOL, "entrypoint": "bench/soak_flows.py:short", "pull_steps": [step]}


def wait_for_text(crew: Crew, name: str, text: str, seconds: float = 120) -> None:
    """Wait until a member has said something.

    Raises:
        RuntimeError: it has not.
    """
    log, deadline = crew.log_of(crew.members[name]), time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not say {text!r}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def kill_and_tend(crew: Crew, options: argparse.Namespace) -> None:
    """For the given time: kill one at random every so often, and start again whoever is not there."""
    choices = killers(crew, crew.folder / "served.journal")
    choices["flow of the worker"] = killers(crew, crew.folder / "worker.journal")["flow"]
    names, weights = list(choices), [weight for weight, _ in choices.values()]
    end = time.monotonic() + options.minutes * 60
    next_kill = time.monotonic() + 2 * options.kill_every
    while time.monotonic() < end:
        crew.tend()
        if time.monotonic() > next_kill:
            choices[random.choices(names, weights)[0]][1]()
            next_kill = time.monotonic() + random.uniform(0.5, 1.5) * options.kill_every
        time.sleep(TICK_SECONDS)


def drain(crew: Crew, queues: dict[str, str], seconds: float) -> bool:
    """Let the submitters finish what they are at, then wait until nothing waits; whether that came."""
    deadline = time.monotonic() + seconds
    crew.tend()
    while any(server.running is None for server in crew.cluster.servers) and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)
    finish_submissions(crew, deadline)
    open_runs = {
        "deployments": {"id": {"any_": list(queues.values())}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    active = {**open_runs, "flow_runs": {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}}
    with api(crew.cluster) as client:
        while client.post("/flow_runs/count", json=open_runs).raise_for_status().json() > 0:
            if time.monotonic() > deadline:
                return False
            crew.tend()
            time.sleep(1)
        deadline = time.monotonic() + 60
        while client.post("/flow_runs/count", json=active).json() > 0 and time.monotonic() < deadline:
            time.sleep(1)
    return True


def finish_submissions(crew: Crew, deadline: float) -> None:
    """Tell the submitters to stop once what they are at is parked; one that was killed is started for that again."""
    time.sleep(5)
    crew.tend()
    submissions = crew.folder / "submitters.journal"
    while time.monotonic() < deadline:
        crew.stop(["submitter"], seconds=120)
        lines = [line.split() for line in submissions.read_text().splitlines()]
        begun = {words[1]: words for words in lines if words[0] == "begun"}
        missing = begun.keys() - {words[1] for words in lines if words[0] == "parked"}
        if not missing:
            return
        for key in missing:
            name, _, count = key.split("/")[0], *begun[key][2:]
            command = [sys.executable, "-m", "bench.soak_roles", "submitter", name, begun[key][2], str(submissions)]
            queue = next(queue for queue, names in SUBMITTERS.items() if name in names)
            given = {} if queue == "light" else {"journal": str(crew.folder / f"{queue}.journal"), "seconds": 1.0}
            crew.add(Member(f"submitter-{name}", "submitter", [*command, count, "-1", json.dumps(given)], ROOT))
        time.sleep(10)


async def read_and_judge(
    servers: Cluster, crew: Crew, queues: dict[str, str], options: argparse.Namespace
) -> dict[str, Verdict]:
    """Read what became of the runs from the database itself, and judge each queue."""
    import asyncpg  # Prefect brings it

    query = """
        SELECT r.id::text, r.idempotency_key, r.expected_start_time, r.created, r.state_type::text AS remains,
               s.timestamp, s.type::text AS type, s.name,
               (s.state_details ->> 'scheduled_time')::timestamptz AS due
        FROM flow_run r JOIN flow_run_state s ON s.flow_run_id = r.id WHERE r.deployment_id = $1 ORDER BY s.timestamp
    """
    connection = await asyncpg.connect(user="postgres", database="postgres", host=servers.database_url.split("=")[1])
    lines = [line.split() for line in (crew.folder / "submitters.journal").read_text().splitlines()]
    verdicts: dict[str, Verdict] = {}
    try:
        for name, deployment_id in queues.items():
            rows = await connection.fetch(query, deployment_id)
            states: dict[str, list[Entry]] = {}
            for row in rows:
                states.setdefault(row["id"], []).append(Entry(row["timestamp"], row["type"], row["name"], row["due"]))
            runs = {
                row["id"]: History(
                    row["id"],
                    (row["idempotency_key"] or "").removeprefix(f"{deployment_id}/"),
                    row["expected_start_time"],
                    row["created"],
                    row["remains"],
                    states[row["id"]],
                )
                for row in rows
            }
            journal = (crew.folder / f"{name}.journal").read_text().splitlines()
            executed = Counter(line.split()[1] for line in journal if line.startswith("executed"))
            wanted = {
                words[1]: int(words[3]) for words in lines if words[:1] == ["begun"] and words[2] == deployment_id
            }
            limit = options.light_limit if name == "light" else options.real_limit
            kills = [kill.when for kill in crew.kills]
            verdicts[name] = judge(list(runs.values()), limit, wanted, executed, kills, datetime.now(timezone.utc))
    finally:
        await connection.close()
    return verdicts


if __name__ == "__main__":
    sys.exit(main())

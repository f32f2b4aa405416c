"""Workers in processes of their own, and deployments for them."""

from prefect import flow

from ordered_queue import park_sync
from tests.conftest import ROOT
from tests.server.deployed import Deployed, wait_until
from tests.server.processes import running

ONLY_ONCE = "3600"
"""So many seconds between polls that a poller's own loop polls as it starts, and then no more in any test."""

FINAL = {"Completed", "Failed", "Crashed", "Cancelled"}


def working(server, log_path, pool, *, worker_type="ordered-process", query_seconds=ONLY_ONCE, **settings):
    """A worker for the pool, which it makes if there is none; what it says goes to the log."""
    command = ("-m", "prefect", "worker", "start", "--type", worker_type, "--pool", pool)
    settings = {"PREFECT_WORKER_QUERY_SECONDS": query_seconds, "PREFECT_LOGGING_LEVEL": "INFO", **settings}
    # Not where the flows are: they must be found by what the deployment says.
    return running(server, log_path, *command, ready=b"started!", cwd=log_path.parent, **settings)


def wait_for_events(log_path):
    """From here on no event is missed."""
    wait_until(lambda: b"following the event stream" in log_path.read_bytes(), 60, "the worker's event stream")


def deploy_to(client, pool, flow_name, name, limit=1):
    """Deploy a flow of `served.py` to the work pool."""
    source = flow.from_source(source=str(ROOT), entrypoint=f"tests/server/served.py:{flow_name}")
    deployment_id = source.deploy(
        name=name, work_pool_name=pool, concurrency_limit=limit, print_next_steps=False, ignore_warnings=True
    )
    return Deployed(client, deployment_id, f"{source.name}/{name}")


def run_all(queue, parameters, seconds=180):
    """Park, wait until all runs have ended, and return them."""
    parked = park_sync(queue.id, parameters, client=queue.client)
    wait_until(lambda: set(queue.states(parked)) <= FINAL, seconds, "the end of all runs")
    return [queue.read(run.flow_run_id) for run in parked]


def cancel_all(queue, runs):
    """Cancel, in this order, runs that have shown what they are for: most of their processes then never start."""
    for run in runs:
        queue.cancel(run)


def see_it_hand_over(queue, seconds):
    """Of three runs, see the first, which hands its slot over itself, promote the second and nobody else."""
    first, second, third = park_sync(queue.id, [{}] * 3, client=queue.client)

    # Not until its end: a quick poller may take it before the slot is free, and Prefect then bounces it for 30 s.
    wait_until(lambda: "Late" in queue.history(second), seconds, "the second run's promotion")

    assert queue.state_of(third) == "Parked"
    cancel_all(queue, [third, second])
    wait_until(lambda: queue.state_of(first) == "Completed", 60, "the first run's end")


def state_names(runs):
    return [run.state.name for run in runs]

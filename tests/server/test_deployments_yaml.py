"""`deployments.yaml` and `flows/refresh.py`, deployed by Prefect's own command line to a server of their own.

Nobody else helps here: no hook, no watcher. What is promoted after the first fill was promoted by the refresh.
"""

import runpy
import shutil
import subprocess
import sys
import time
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import PARKED_TAG, QueueSwept, park_sync, sweep_sync
from ordered_queue.embedded import prefect_server, stop
from tests.conftest import ROOT

REFRESH = "ordered-queue-refresh/refresh"
POOL = "the-pool"
DEPLOY = ("--no-prompt", "deploy", "--prefect-file", "deployments.yaml", "--all")


@pytest.fixture(scope="module")
def own_server(tmp_path_factory):
    """A server of this module's own: the refresh sweeps every queue there is."""
    settings = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_LOGGING_LEVEL": "WARNING"}
    with prefect_server(tmp_path_factory.mktemp("prefect"), settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def own_client(own_server):
    with SyncPrefectClient(own_server.api_url, httpx_settings={"timeout": 60}) as opened:
        yield opened


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's project with the two files, as `ordered-queue init` writes them."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "flows").mkdir()
    for name in ("deployments.yaml", "flows/refresh.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def prefect(server, folder, *arguments):
    command = [sys.executable, "-m", "prefect", *arguments]
    return subprocess.run(command, env=server.env, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def refresh(own_server, own_client, project):
    """The deployment that the documented command makes."""
    own_client.request("POST", "/work_pools/", json={"name": POOL, "type": "process"})
    result = prefect(own_server, project, *DEPLOY, "--pool", POOL)
    assert result.returncode == 0, result.stdout + result.stderr
    return own_client.read_deployment_by_name(REFRESH)


@pytest.fixture(scope="module")
def worker(own_server, refresh, project):
    """A real process worker. It starts with the first test that asks for it."""
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    with (own_server.home / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env=own_server.env,
            cwd=project,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    yield process
    stop(process)


class Queue:
    """A deployment that no worker polls; the test moves its runs as a runner would."""

    def __init__(self, client, limit, count):
        self.client = client
        self.limit = limit
        flow_id = client.request("POST", "/flows/", json={"name": f"flow-{uuid4().hex[:12]}"}).json()["id"]
        body = {"name": "queue", "flow_id": flow_id, "concurrency_limit": limit, "enforce_parameter_schema": False}
        self.id = UUID(client.request("POST", "/deployments/", json=body).json()["id"])
        parked = park_sync(self.id, [{"number": number} for number in range(count)], client=client)
        self.runs = [run.flow_run_id for run in parked]

    def set_states(self, run_ids, *types):
        for run_id in run_ids:
            for type_ in types:
                body = {"state": {"type": type_}}
                answer = self.client.request("POST", f"/flow_runs/{run_id}/set_state", json=body).json()
                assert answer["status"] == "ACCEPT", answer

    def started(self):
        """Take the promoted runs as a runner does."""
        self.set_states(self.runs[: self.limit], "PENDING", "RUNNING")
        return self.runs[: self.limit]

    def states(self):
        """The names of the runs' states, in order of submission."""
        body = {"deployments": {"id": {"any_": [str(self.id)]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return [run["state_name"] for run in self.client.request("POST", "/flow_runs/filter", json=body).json()]


def refreshes(client, refresh):
    """Those that came up so far; not those that the schedule has planned."""
    flow_runs = {"state": {"name": {"not_any_": ["Scheduled"]}}}
    body = {"deployments": {"id": {"any_": [str(refresh.id)]}}, "flow_runs": flow_runs}
    return client.request("POST", "/flow_runs/filter", json=body).json()


def new_refresh(client, refresh, deployment_id):
    """A refresh as a trigger makes it; None as the schedule does."""
    parameters = {} if deployment_id is None else {"deployment_id": str(deployment_id)}
    body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
    return client.request("POST", f"/deployments/{refresh.id}/create_flow_run", json=body).json()["id"]


def wait_until(condition, told=lambda: "", seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come true within {seconds} s: {told()}")
        time.sleep(0.2)


def wait_for_states(queue, expected):
    wait_until(lambda: queue.states() == expected, lambda: f"{queue.states()} is not {expected}")


def test_deploy_says_what_to_do_when_no_work_pool_is_named(own_server, project):
    result = prefect(own_server, project, *DEPLOY)
    assert result.returncode != 0
    assert "--pool" in result.stdout + result.stderr


def test_deploy_installs_the_nightly_refresh_and_its_triggers(own_client, refresh):
    (schedule,) = refresh.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone, schedule.active) == ("17 3 * * *", "Etc/UTC", True)
    assert refresh.global_concurrency_limit.limit == 1
    assert refresh.concurrency_options.collision_strategy == "CANCEL_NEW"
    assert (refresh.work_pool_name, refresh.entrypoint) == (POOL, "flows/refresh.py:refresh")
    assert PARKED_TAG not in refresh.tags
    automations = own_client.request("POST", "/automations/filter", json={}).json()
    (automation,) = automations
    (action,) = automation["actions"]
    assert automation["enabled"]
    assert action["deployment_id"] == str(refresh.id)
    template = {"__prefect_kind": "jinja", "template": "{{ flow_run.deployment_id }}"}
    assert action["parameters"] == {"deployment_id": template}
    assert automation["trigger"]["match_related"]["prefect.resource.id"] == f"prefect.tag.{PARKED_TAG}"


@pytest.fixture
def running(own_server, own_client, project, refresh):
    """Run a refresh here, without a worker, while others come and are dropped."""

    def run(meant_for, *dropped_for):
        first, *others = [new_refresh(own_client, refresh, queue_id) for queue_id in (meant_for, *dropped_for)]
        pending = {"state": {"type": "PENDING"}}
        proposed = [
            own_client.request("POST", f"/flow_runs/{run_id}/set_state", json=pending).json()["state"]["name"]
            for run_id in (first, *others)
        ]
        assert proposed == ["Pending", *["Cancelled"] * len(others)]
        env = {**own_server.env, "PREFECT__FLOW_RUN_ID": first}
        command = [sys.executable, "-m", "prefect.engine"]
        subprocess.run(command, env=env, cwd=project, capture_output=True, timeout=60, check=False)
        return own_client.read_flow_run(UUID(first))

    return run


def make_unnoticed_room(queue):
    """A promoted run is deleted, which starts no refresh."""
    queue.client.request("DELETE", f"/flow_runs/{queue.runs[0]}")


def test_refresh_fills_the_queues_of_the_refreshes_that_were_dropped_meanwhile(own_client, running):
    queues = [Queue(own_client, limit=1, count=3) for _ in range(3)]
    for queue in queues:
        make_unnoticed_room(queue)

    run = running(queues[0].id, queues[1].id)

    assert (run.state.name, run.state.message) == ("Completed", "2 queue(s) looked at, 2 run(s) promoted")
    assert [queue.states() for queue in queues] == [["Late", "Parked"], ["Late", "Parked"], ["Parked", "Parked"]]


def test_refresh_fails_but_makes_up_for_the_dropped_nightly_one_when_a_queue_could_not_be_filled(own_client, running):
    queue = Queue(own_client, limit=1, count=3)
    make_unnoticed_room(queue)
    unknown = uuid4()

    run = running(unknown, None)

    assert run.state.name == "Failed"
    assert str(unknown) in run.state.message
    assert queue.states() == ["Late", "Parked"]


def test_refresh_looks_once_more_when_it_has_ended(own_server, own_client, refresh, running):
    queue = Queue(own_client, limit=1, count=3)
    ended = running(queue.id)
    make_unnoticed_room(queue)
    dropped = new_refresh(own_client, refresh, queue.id)
    own_client.request("POST", f"/flow_runs/{dropped}/set_state", json={"state": {"type": "CANCELLED"}})

    module = runpy.run_path(str(ROOT / "flows/refresh.py"))
    hook = module["look_once_more"]
    assert hook in module["refresh"].on_completion_hooks
    assert hook in module["refresh"].on_failure_hooks
    with temporary_settings(updates={PREFECT_API_URL: own_server.api_url}):
        hook(module["refresh"], ended, ended.state)

    assert queue.states() == ["Late", "Parked"]


@pytest.mark.parametrize("ends_as", ["CANCELLED", "CRASHED"])
def test_trigger_promotes_the_next_run_when_a_started_one_ends_as(own_client, worker, ends_as):
    queue = Queue(own_client, limit=1, count=3)
    queue.set_states(queue.started(), *(["CANCELLING", "CANCELLED"] if ends_as == "CANCELLED" else ["CRASHED"]))
    wait_for_states(queue, [ends_as.capitalize(), "Late", "Parked"])


def test_trigger_promotes_the_next_run_when_a_promoted_one_is_cancelled(own_client, worker):
    queue = Queue(own_client, limit=1, count=3)
    queue.set_states(queue.runs[:1], "CANCELLED")
    wait_for_states(queue, ["Cancelled", "Late", "Parked"])


def test_triggers_start_a_few_refreshes_when_many_runs_are_cancelled_at_once(own_client, refresh, worker):
    before = {run["id"] for run in refreshes(own_client, refresh)}
    queues = [Queue(own_client, limit=15, count=46) for _ in range(2)]
    cancelled = [(queue, queue.started()) for queue in queues]

    for queue, run_ids in cancelled:
        queue.set_states(run_ids, "CANCELLING", "CANCELLED")
    for queue in queues:
        wait_for_states(queue, ["Cancelled"] * 15 + ["Late"] * 15 + ["Parked"] * 16)
    # Promoted ones, which nobody has taken: each of them is an event of its own as well.
    queues[0].set_states(queues[0].runs[15:30], "CANCELLED")
    wait_for_states(queues[0], ["Cancelled"] * 30 + ["Late"] * 15 + ["Parked"])

    def made():
        return [run for run in refreshes(own_client, refresh) if run["id"] not in before]

    wait_until(lambda: all(run["state_type"] in ("COMPLETED", "CANCELLED") for run in made()), made)
    executed = [run for run in made() if run["run_count"]]
    assert {run["state_type"] for run in executed} == {"COMPLETED"}
    assert len(executed) <= 6
    assert len(made()) <= 12  # one for each 5 s and queue, not one for each of the 45 runs
    assert {run["parameters"]["deployment_id"] for run in made()} == {str(queue.id) for queue in queues}


def test_refresh_tries_a_queue_again_that_could_not_be_filled(own_server, own_client, monkeypatch):
    module = runpy.run_path(str(ROOT / "flows/refresh.py"))
    queue = Queue(own_client, limit=1, count=3)
    make_unnoticed_room(queue)
    first_fails = iter([[QueueSwept(queue.id, 2, "the server is busy")]])
    globals_ = module["try_to_fill"].__globals__
    monkeypatch.setitem(globals_, "TRY_AGAIN_SECONDS", (0,))
    monkeypatch.setitem(globals_, "sweep_sync", lambda client, its: next(first_fails, None) or sweep_sync(client, its))

    swept = module["try_to_fill"](own_client, FlowRun(flow_id=uuid4()), queue.id)

    assert swept == [QueueSwept(queue.id, 3)]
    assert queue.states() == ["Late", "Parked"]

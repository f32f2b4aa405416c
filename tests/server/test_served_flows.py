"""End to end: flows served by `ordered_queue.serve`, in real processes."""

import pytest

from ordered_queue import fill_free_slots_sync, hand_over_slot, park_sync
from ordered_queue.testing import assert_in_order
from tests.server.deployed import Deployed, wait_until
from tests.server.processes import running
from tests.server.served import FLOWS, NOT_YET, QUERY_SECONDS, SILENT, deployment
from tests.server.working import ONLY_ONCE, cancel_all, run_all, see_it_hand_over, state_names


def serve(server, log_path, *names, query_seconds="0.5", ready=b"Start-up recovery", **settings):
    settings = {"PREFECT_LOGGING_LEVEL": "INFO", QUERY_SECONDS: query_seconds, **settings}
    return running(server, log_path, "-m", "tests.server.served", *names, ready=ready, **settings)


@pytest.fixture(scope="module")
def serving(server, tmp_path_factory):
    log_path = tmp_path_factory.mktemp("serve") / "log"
    with serve(server, log_path):
        yield log_path


@pytest.fixture
def served(serving, client):
    def find(name):
        flow_name = FLOWS[name][0].name
        deployment = client.read_deployment_by_name(f"{flow_name}/{name}")
        return Deployed(client, deployment.id, f"{flow_name}/{name}")

    return find


def test_what_is_served_is_said_as_it_starts(serving, served):
    wait_until(lambda: "ordered-queue park" in serving.read_text(), 30, "the starting message")

    said = serving.read_text()
    names = [f"  {flow.name}/{name}" for name, (flow, _) in FLOWS.items() if name not in NOT_YET]
    assert "\n".join(["Serving in order:", *names, "Park runs with: ordered-queue park"]) in said
    # As Prefect's `serve` does: runs of a served deployment are its own.
    assert "'there-is-none' is ignored" in said
    assert served("one").client.read_deployment(served("one").id).work_pool_name is None


def test_twenty_runs_start_in_order_two_at_a_time(served):
    runs = run_all(served("two"), [{"seconds": 0.5}] * 20, seconds=480)

    assert state_names(runs) == ["Completed"] * 20
    assert_in_order(runs, limit=2)


@pytest.mark.parametrize(("name", "limit"), [("three", 3), ("async", 1)])
def test_runs_start_in_order(served, name, limit):
    count = limit + 2
    runs = run_all(served(name), [{}] * count, seconds=120)

    assert state_names(runs) == ["Completed"] * count
    assert_in_order(runs, limit)


HOOKS_OF = {"one": "the decorator", "by-hand": "by hand"}


@pytest.mark.parametrize("name", HOOKS_OF, ids=HOOKS_OF.get)
def test_the_next_run_starts_however_the_one_before_it_ended(served, name):
    runs = run_all(served(name), [{}, {"how": "fail"}, {"how": "kill"}, {}], seconds=180)

    assert state_names(runs) == ["Completed", "Failed", "Crashed", "Completed"]
    assert_in_order(runs, limit=1)


@pytest.mark.parametrize("name", ["itself", "itself-async", "subflow"])
def test_a_flow_that_hands_its_slot_over_itself_promotes_the_next(served, name):
    see_it_hand_over(served(name), 60)


def test_a_run_that_another_flow_started_hands_its_own_slot_over(served):
    """Its root is the caller's run, which holds no slot of the queue."""
    queue, caller = served("called"), served("caller")
    queue.client.request("PATCH", f"/deployments/{queue.id}", json={"paused": False})
    called_by = caller.create_outsider_with({"deployment": queue.name})
    wait_until(lambda: caller.state_of(called_by) == "Completed", 60, "the caller's end")
    runs = park_sync(queue.id, [{}, {}], client=queue.client)

    wait_until(lambda: "Late" in queue.history(runs[0]), 60, "promotion by the run that was called")

    cancel_all(queue, runs[::-1])


def test_the_next_run_starts_when_a_running_one_is_cancelled(served):
    queue = served("one")
    first, second = park_sync(queue.id, [{"seconds": 300}, {}], client=queue.client)
    wait_until(lambda: queue.state_of(first) == "Running", what="the first run to be Running")

    queue.cancel(first)

    wait_until(lambda: queue.state_of(second) == "Completed", 60, "the second run's end")
    assert queue.state_of(first) == "Cancelled"
    # The hook waited for the final state, so the promoted run found a slot at its first try.
    assert "AwaitingConcurrencySlot" not in queue.history(second)


def test_a_cancelled_parked_head_is_passed_over(served):
    queue = served("one")
    runs = park_sync(queue.id, [{"seconds": 2}, {}, {}], client=queue.client)

    queue.cancel(runs[1])

    wait_until(lambda: queue.state_of(runs[2]) == "Completed", 60, "the third run's end")
    assert queue.states(runs) == ["Completed", "Cancelled", "Completed"]


def test_recovery_fills_a_queue_that_nobody_watched_before_the_first_poll(served, server, client, tmp_path):
    deployment("recovered").apply()
    queue = served("recovered")
    first, second = park_sync(queue.id, [{}, {}], client=client)
    queue.cancel(first)  # no process, so no hook runs
    assert queue.states([first, second]) == ["Cancelled", "Parked"]

    with serve(server, tmp_path / "log", "recovered", ready=b"following the event stream", **{SILENT: "yes"}):
        pass

    said = (tmp_path / "log").read_text()
    assert "Start-up recovery: 1 run(s) promoted" in said
    assert "Serving in order" not in said  # which would have come before it followed the events
    assert queue.state_of(second) != "Parked"


def test_a_runner_that_hardly_ever_polls_by_itself_runs_a_queue_to_its_end(served, server, tmp_path):
    """The flow has no hooks, so the runner alone fills after each end and polls after each promotion."""
    log_path = tmp_path / "log"
    with serve(server, log_path, "prompt", query_seconds=ONLY_ONCE, ready=b"following the event stream"):
        runs = run_all(served("prompt"), [{}, {"how": "kill"}, {}], seconds=180)

    assert state_names(runs) == ["Completed", "Crashed", "Completed"]
    assert_in_order(runs, limit=1)
    assert "Traceback" not in log_path.read_text()


def test_hand_over_outside_of_a_run_is_nothing(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a request was made")

    monkeypatch.setattr("ordered_queue.hooks.get_client", refuse)

    assert hand_over_slot() == 0


def test_a_flow_called_by_hand_has_no_slot_to_hand_over(server, client, deploy):
    from tests.server.served import sync_flow

    queue = deploy(limit=1)
    runs = queue.park(2)

    sync_flow(seconds=0)

    assert queue.states(runs) == ["Late", "Parked"]
    assert fill_free_slots_sync(client, queue.id) == 0

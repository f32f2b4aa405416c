"""G6, harmless: real runs, over a link on which no fill gets through, end exactly as without the hooks."""

import logging
import subprocess
import sys

import pytest
from prefect import flow
from prefect.flow_engine import run_flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Failed

from ordered_queue import fill_free_slots_sync, hand_over_slot, park_sync, queued
from tests.conftest import ROOT
from tests.server.link import linked

CAUSES = {
    "request never arrives": "Server disconnected",
    "503": "the server answered 503",
    "500": "the server answered 500",
}
"""What every fill meets, and what the log calls it."""

REPAIR = "The next run of it to end, the nightly refresh or `ordered-queue sweep` will fill the queue"

ONLY_A_FILL_ASKS = "/api/flow_runs/filter"
"""No request of the engine's goes there."""


def returns():
    return {"answer": 42}


def raises():
    raise ValueError("as told")


def fails():
    return Failed(message="as told")


def exits():
    raise SystemExit(3)


def and_then_hands_over(end):
    def body():
        try:
            return end()
        finally:
            assert hand_over_slot() == 0

    return body


JOINED = {"hooks": lambda end: queued(flow(end)), "hand_over_slot": lambda end: flow(and_then_hands_over(end))}
"""How a flow joins in, of the ways that run code of ours in it."""


@pytest.fixture(scope="module")
def link(server):
    with linked(server.api_url) as made:
        yield made


@pytest.fixture
def weather(link):
    """Let every fill on the link meet this fault."""
    yield lambda fault: link.on_path.update({ONLY_A_FILL_ASKS: fault})
    link.on_path.clear()


@pytest.fixture
def impatient(monkeypatch):
    """Ask once where else one would ask four times in 2 s."""
    monkeypatch.setattr("ordered_queue._steps.fill.MOST_ATTEMPTS", 1)


@pytest.fixture
def logged():
    """What our package logs. Not `caplog`: as a run begins Prefect sets logging up anew, without its handler."""
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("prefect.ordered_queue")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def outcome(run, flow_to_run, queue, api_url):
    """What came of executing the run: what its caller gets, and what the server keeps."""
    with temporary_settings(updates={PREFECT_API_URL: api_url}):
        try:
            result = ("returned", run_flow(flow_to_run, flow_run=queue.read(run.flow_run_id), parameters={}))
        except BaseException as error:  # an exit is one, too
            result = ("raised", type(error), error.args)
    state = queue.read(run.flow_run_id).state
    return result, state.type, state.name, state.message


@pytest.fixture(scope="module")
def known():
    """What is known already of how a run ends without us."""
    return {}


@pytest.fixture
def ended_alone(known, server, client, deploy):
    """What comes of a run that ends so, without us; found out once."""

    def find_out(end):
        if end not in known:
            queue = deploy(limit=1)
            (run,) = park_sync(queue.id, [{}], client=client)
            known[end] = outcome(run, flow(end), queue, server.api_url)
        return known[end]

    return find_out


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize(
    ("end", "state", "fault"),
    [
        (returns, "Completed", "500"),
        (raises, "Failed", "request never arrives"),
        (fails, "Failed", "503"),
        (exits, "Crashed", "500"),
    ],
)
def test_a_run_ends_as_without_us_when_no_fill_gets_through(
    ended_alone, client, deploy, link, weather, end, state, fault, join, logged
):
    queue = deploy(limit=1)
    first, second = park_sync(queue.id, [{}, {}], client=client)
    expected = ended_alone(end)
    assert expected[2] == state
    weather(fault)

    assert outcome(first, join(end), queue, link.api_url) == expected

    (warned,) = logged
    assert warned.levelname == "WARNING"
    said = warned.getMessage()
    assert said.startswith(f"Could not fill the queue of deployment {queue.id}: ")
    assert CAUSES[fault] in said
    assert REPAIR in said
    assert "\n" not in said
    # Nobody was promoted, and what is said to repair it does.
    assert queue.state_of(second) == "Parked"
    assert fill_free_slots_sync(queue.client, queue.id) == 1


def test_a_process_exits_as_without_us_when_no_fill_gets_through(server, deploy, client, link, weather):
    """Of an async flow, as a runner starts it."""
    queue = deploy(limit=1, path=".", entrypoint="tests/server/served.py:hands_over_itself_async")
    first, second = park_sync(queue.id, [{}, {}], client=client)
    weather("500")

    command = [sys.executable, "-m", "prefect.engine", str(first.flow_run_id)]
    env = {**server.env, "PREFECT_API_URL": link.api_url}
    ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert queue.states([first, second]) == ["Completed", "Parked"]
    assert (ended.stdout + ended.stderr).count("Could not fill the queue") == 1

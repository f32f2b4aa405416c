"""How many requests each operation makes, and which: exact, so that one more is a decision and not an accident.

Counted where they leave the process, so what Prefect's client adds of its own is in it. On PostgreSQL, since SQLite now
and then answers that it is locked, and is asked again.
"""

import re
from collections import Counter

import httpx
import pytest
from prefect import flow
from prefect.states import Completed

from ordered_queue import fill_free_slots_sync, hand_over_on_end, park_sync, sweep_sync
from ordered_queue.cli import main
from tests.conftest import on_postgresql
from tests.server.test_park import numbers

pytestmark = on_postgresql

UUID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

VERSION = "GET /admin/version"
DEPLOYMENT = "GET /deployments/{id}"
BY_NAME = "GET /deployments/name/{flow}/queue"
RUNS = "POST /flow_runs/filter"
QUEUES = "POST /deployments/filter"
CREATE = "POST /deployments/{id}/create_flow_run/bulk"
SET_STATE = "POST /flow_runs/{id}/set_state"

ASK = "GET /csrf-token"
"""Before a client's first request that is no GET: Prefect's client asks whether the server wants a token with it."""

IDLE_FILL = [DEPLOYMENT, *[RUNS] * 3]
"""Its limit; then what waits, what is due and what is active."""

EMPTY_FILL = [DEPLOYMENT, RUNS]
"""Nothing waits."""

FILL = [*IDLE_FILL, SET_STATE]

SUBMISSION = [DEPLOYMENT, RUNS, RUNS]
"""Its limit and schema; what is there of the submission; the tail. That the server is new enough the client's first
submission has asked."""

A_CHUNK = [CREATE, RUNS, *IDLE_FILL]
"""Created and read back. Behind the first and the last there is a fill, and else every few seconds."""


@pytest.fixture
def sent(server, monkeypatch):
    """What was sent since it was last emptied."""
    seen: list[str] = []
    real = httpx.Client.send

    def send(self, request, **options):
        path = UUID_PATTERN.sub("{id}", request.url.path.removeprefix("/api"))
        seen.append(f"{request.method} {re.sub('flow-[0-9a-f]{12}', '{flow}', path)}")
        return real(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", send)
    return seen


@pytest.fixture
def queue(deploy, sent):
    """A queue with limit 1 in which two runs wait behind one that is Running, and its runs."""
    made = deploy(limit=1)
    runs = made.park(3)
    made.start(runs[0])
    sent.clear()
    return made, runs


def test_a_fill(queue, client, sent):
    its, runs = queue
    assert fill_free_slots_sync(client, its.id) == 0
    assert sent == IDLE_FILL

    its.finish(runs[0])
    sent.clear()
    assert fill_free_slots_sync(client, its.id) == 1
    assert sent == FILL


def test_a_hook_at_a_flows_end(queue, sent):
    """It has a client of its own."""
    its, runs = queue
    ended = its.read(runs[0].flow_run_id)
    its.finish(runs[0])
    sent.clear()

    hand_over_on_end(flow(lambda: None, name="ended"), ended, Completed())

    assert sent == [DEPLOYMENT, ASK, *FILL[1:]]


def test_a_sweep(queue, deploy, client, sent):
    its, _ = queue
    sweep_sync(client, its.id)
    assert sent == IDLE_FILL

    another = deploy(limit=1)
    another.park(1)
    sent.clear()
    assert {each.deployment_id for each in sweep_sync(client)} == {its.id, another.id}
    assert Counter(sent) == Counter([QUEUES, *IDLE_FILL, *EMPTY_FILL])  # in the order of their ids


@pytest.mark.parametrize(("count", "chunks"), [(1, 1), (100, 1), (200, 2)])
def test_a_submission(queue, client, sent, count, chunks):
    its, _ = queue

    park_sync(its.id, numbers(count), submission_key="key", client=client)

    assert sent == [*SUBMISSION, *A_CHUNK * chunks]


def test_a_submission_that_is_repeated(queue, client, sent):
    """It looks for its runs a hundred at a time, and fills after the first of them and at its end."""
    its, _ = queue
    park_sync(its.id, numbers(200), submission_key="key", client=client)
    sent.clear()

    park_sync(its.id, numbers(200), submission_key="key", client=client)

    assert sent == [*SUBMISSION, *IDLE_FILL, RUNS, *IDLE_FILL]


def test_commands(queue, sent):
    """Each has a client of its own. A run's names for people are in its deployment and its flow."""
    its, _ = queue
    names = [QUEUES, "POST /flows/filter"]

    main(["ls", its.name])
    assert sent == [VERSION, BY_NAME, ASK, *[RUNS] * 3, *names]

    sent.clear()
    main(["sweep", its.name])
    assert sent == [VERSION, BY_NAME, DEPLOYMENT, ASK, *[RUNS] * 3, *names]

    sent.clear()
    main(["park", its.name, "--param", "number=1"])
    assert sent == [VERSION, BY_NAME, DEPLOYMENT, ASK, RUNS, RUNS, *A_CHUNK]

"""What no server can keep is refused before anything is created; what just fits is kept, on both databases."""

import random
import string

import pytest

from ordered_queue import InvalidRun, RunRequest, fill_free_slots_sync, park_sync
from ordered_queue.sendable import MOST_TEXT_BYTES
from tests.conftest import on_both_databases
from tests.server.deployed import wait_until

pytestmark = on_both_databases

PARAMETER_BYTES = 524_288
"""Prefect's default."""


def noise(count):
    """A text that does not compress: one that does fits into an index at any length."""
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=count))


def count_of_runs(queue):
    body = {"deployments": {"id": {"any_": [str(queue.id)]}}}
    return queue.client.request("POST", "/flow_runs/count", json=body).json()


def events_of(client, flow_run_id):
    body = {"filter": {"resource": {"id": [f"prefect.flow-run.{flow_run_id}"]}}}
    return {event["event"] for event in client.request("POST", "/events/filter", json=body).json()["events"]}


def test_the_longest_texts_are_kept_wherever_the_database_indexes_them(deploy, client):
    queue = deploy(limit=1)
    longest = noise(MOST_TEXT_BYTES)
    with_own = RunRequest({"n": 1}, name=longest, tags=(longest,), idempotency_key=longest)

    first, second = park_sync(queue.id, [{"n": 0}, with_own], submission_key=longest, client=client)
    again = park_sync(queue.id, [{"n": 0}, with_own], submission_key=longest, client=client)

    assert all(run.already_there for run in again)
    queue.start(first)
    queue.finish(first)
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.states([first, second]) == ["Completed", "Late"]
    # The events' resources are indexed too, and a batch of events that fails is lost.
    wait_until(lambda: "prefect.flow-run.Late" in events_of(client, second.flow_run_id), 60, "the second run's event")


@pytest.mark.parametrize(
    "row",
    [
        RunRequest(idempotency_key=noise(10_000)),
        RunRequest(name=noise(10_000)),
        RunRequest(tags=(noise(10_000),)),
        {"text": "x" * PARAMETER_BYTES},
        {"text": "ü" * (PARAMETER_BYTES // 4)},
        {"text": "x" * 2_000_000},
    ],
    ids=["key", "name", "tag", "large", "large once it is ASCII", "very large"],
)
def test_a_list_with_a_row_that_is_too_large_parks_nothing(deploy, client, row):
    queue = deploy(limit=1)

    with pytest.raises(InvalidRun, match=r"^Run 120 .* are the most.* Nothing was parked\.") as caught:
        park_sync(queue.id, [*({"number": number} for number in range(120)), row], client=client)

    assert len(str(caught.value)) < 1_000
    assert count_of_runs(queue) == 0


@pytest.mark.parametrize("key", ["", " ", noise(10_000)], ids=["empty", "blank", "long"])
def test_a_submission_key_that_will_not_do_is_refused_before_anything_is_created(deploy, client, key):
    queue = deploy(limit=1)
    read = []

    with pytest.raises(ValueError, match="The submission key"):
        park_sync(queue.id, (read.append(n) or {"n": n} for n in range(2)), submission_key=key, client=client)

    assert read == []
    assert count_of_runs(queue) == 0


def test_the_largest_and_deepest_parameters_come_back_as_they_were(deploy, client):
    queue = deploy(limit=1)
    deep = 1
    for _ in range(250):
        deep = [deep]
    rows = [{"text": "x" * (PARAMETER_BYTES - len('{"text":""}'))}, {"deep": deep}]

    runs = park_sync(queue.id, rows, submission_key="s", client=client)
    again = park_sync(queue.id, rows, submission_key="s", client=client)

    assert [queue.read(run.flow_run_id).parameters for run in runs] == rows
    assert all(run.already_there for run in again)

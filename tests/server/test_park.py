"""Parking, on a real server."""

import threading
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

import ordered_queue._drive
from ordered_queue import (
    PARK_DELAY,
    PARKED_TAG,
    DeploymentNotFound,
    DeploymentRefused,
    InvalidRun,
    RunRequest,
    SubmissionIncomplete,
    park,
    park_sync,
)
from tests.conftest import on_both_databases

pytestmark = on_both_databases

SCHEMA = {
    "title": "Parameters",
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}


def waiting_numbers(client, queue):
    """The parameter `number` of all tagged runs of the queue, in the order of their parked times."""
    found = []
    while True:
        body = {
            "deployments": {"id": {"any_": [str(queue.id)]}},
            "flow_runs": {"tags": {"all_": [PARKED_TAG]}},
            "sort": "EXPECTED_START_TIME_ASC",
            "limit": 200,
            "offset": len(found),
        }
        page = client.request("POST", "/flow_runs/filter", json=body).json()
        found += page
        if len(page) < 200:
            return [run["parameters"]["number"] for run in found]


def numbers(count, start=0):
    return [{"number": number} for number in range(start, start + count)]


def test_runs_are_parked_in_order_a_millisecond_apart_and_read_back(deploy, client):
    queue = deploy(limit=1)

    runs = queue.park(250)

    assert [run.position for run in runs] == list(range(250))
    gaps = {later.parked_time - earlier.parked_time for earlier, later in pairwise(runs)}
    assert gaps == {timedelta(milliseconds=1)}
    assert waiting_numbers(client, queue) == list(range(250))
    found = queue.read(runs[7].flow_run_id)
    assert found.state.type.value == "SCHEDULED"
    assert found.expected_start_time == runs[7].parked_time
    assert found.labels["ordered-queue.submission"] == runs[7].submission_key
    assert found.labels["ordered-queue.position"] == 7


def test_runs_are_parked_far_outside_any_prefetch_window(deploy, client):
    queue = deploy(limit=1)

    run = queue.park(2)[1]

    assert abs(run.parked_time - queue.read(run.flow_run_id).created - PARK_DELAY) < timedelta(minutes=1)


@pytest.mark.anyio
async def test_the_async_form_does_the_same(deploy, client, server):
    queue = deploy(limit=1)

    async with get_client() as async_client:
        runs = await park(queue.name, numbers(3), client=async_client)

    assert queue.states(runs) == ["Late", "Parked", "Parked"]


@pytest.mark.parametrize("spelling", ["name", "id", "text id", "object"])
def test_a_deployment_can_be_named_in_every_way(deploy, client, spelling):
    queue = deploy(limit=1)
    given = {
        "name": queue.name,
        "id": queue.id,
        "text id": str(queue.id),
        "object": client.read_deployment(queue.id),
    }[spelling]

    assert len(park_sync(given, numbers(1), client=client)) == 1


def test_a_later_submission_appends(deploy, client):
    queue = deploy(limit=1)
    park_sync(queue.id, numbers(5), client=client)

    park_sync(queue.id, numbers(5, start=5), client=client)

    assert waiting_numbers(client, queue) == list(range(10))


def test_a_submitter_whose_clock_is_off_still_appends(deploy, client, monkeypatch):
    queue = deploy(limit=1)
    park_sync(queue.id, numbers(3), client=client)

    class SlowClock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(minutes=10)

    monkeypatch.setattr(ordered_queue._drive, "datetime", SlowClock)
    slow = park_sync(queue.id, numbers(3, start=3), client=client)
    monkeypatch.undo()

    assert waiting_numbers(client, queue) == list(range(6))
    assert abs(slow[0].parked_time - PARK_DELAY - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_the_same_key_again_adds_nothing_whatever_became_of_the_runs(deploy, client):
    queue = deploy(limit=2)
    first = park_sync(queue.id, numbers(4), submission_key="nightly", client=client)
    queue.start(first[0])
    queue.finish(first[0])
    queue.start(first[1])

    again = park_sync(queue.id, numbers(4), submission_key="nightly", client=client)

    assert [run.flow_run_id for run in again] == [run.flow_run_id for run in first]
    assert [run.already_there for run in again] == [True] * 4
    assert waiting_numbers(client, queue) == [0, 1, 2, 3]


def test_a_key_of_the_callers_own_adds_nothing_twice_either(deploy, client):
    queue = deploy(limit=1)
    request = RunRequest({"number": 1}, idempotency_key=f"mine-{queue.id}")

    first = park_sync(queue.id, [request], client=client)[0]
    second = park_sync(queue.id, [request], client=client)[0]

    assert first.flow_run_id == second.flow_run_id
    assert second.already_there


def test_a_key_that_another_deployment_of_the_flow_used_is_refused(deploy, client):
    queue = deploy(limit=1)
    flow_id = str(client.read_deployment(queue.id).flow_id)
    other = client.request("POST", "/deployments/", json={"name": "other", "flow_id": flow_id}).json()["id"]
    request = RunRequest({"number": 1}, idempotency_key=f"mine-{queue.id}")
    park_sync(queue.id, [request], client=client)

    with pytest.raises(InvalidRun, match=f"belongs to flow run .* of deployment {queue.id}"):
        park_sync(UUID(other), [request], client=client)


def test_a_hole_in_a_chunk_is_filled_at_its_own_place(deploy, client):
    queue = deploy(limit=1)
    runs = park_sync(queue.id, numbers(9), submission_key="holed", client=client)
    for run in runs[3:6]:
        queue.delete(run)

    again = park_sync(queue.id, numbers(12), submission_key="holed", client=client)

    assert [run.parked_time for run in again[:9]] == [run.parked_time for run in runs]
    assert waiting_numbers(client, queue) == list(range(12))


def test_fifty_submitters_at_once_lose_double_and_reorder_nothing(deploy, client, server):
    """SQLite answers "database is locked" to many of them, item by item, inside a 200 answer."""
    queue = deploy(limit=1)
    failures = []

    def submit(submitter):
        with (
            temporary_settings(updates={PREFECT_API_URL: server.api_url}),
            get_client(httpx_settings={"timeout": 60}, sync_client=True) as own,
        ):
            try:
                park_sync(queue.id, numbers(6, start=submitter * 100), client=own)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=submit, args=(submitter,)) for submitter in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    found = waiting_numbers(client, queue)
    assert len(found) == len(set(found)) == 300
    for submitter in range(50):
        own = [number for number in found if number // 100 == submitter]
        assert own == [submitter * 100 + position for position in range(6)]


def test_a_list_with_a_bad_row_parks_nothing(deploy, client):
    queue = deploy(limit=1, enforce_parameter_schema=True, parameter_openapi_schema=SCHEMA)

    with pytest.raises(InvalidRun, match=r"Run 150 .*'number'.*Nothing was parked"):
        park_sync(queue.id, [*numbers(150), {"number": "x"}], client=client)

    assert waiting_numbers(client, queue) == []


def test_an_iterator_stops_at_the_bad_row_and_says_how_much_is_parked(deploy, client):
    queue = deploy(limit=1, enforce_parameter_schema=True, parameter_openapi_schema=SCHEMA)
    read = []

    def rows():
        for row in [*numbers(150), {"number": "x"}, *numbers(500)]:
            read.append(row)
            yield row

    with pytest.raises(InvalidRun) as caught:
        park_sync(queue.id, rows(), client=client)

    assert (caught.value.position, caught.value.parked_count) == (150, 150)
    assert waiting_numbers(client, queue) == list(range(150))
    assert len(read) == 151


def test_what_came_before_is_parked_when_the_callers_iterator_breaks(deploy, client):
    queue = deploy(limit=1)

    def rows():
        yield from numbers(130)
        raise OSError("disk gone")

    with pytest.raises(SubmissionIncomplete, match=r"^The first 130 runs are parked, nothing of the rest .*disk gone"):
        park_sync(queue.id, rows(), client=client)

    assert waiting_numbers(client, queue) == list(range(130))


def test_a_row_that_only_the_server_can_refuse_is_told_of_with_the_prefix_before_it(deploy, client):
    queue = deploy(limit=1, enforce_parameter_schema=True, parameter_openapi_schema=SCHEMA)
    template = {"number": {"__prefect_kind": "json", "value": '"text"'}}

    with pytest.raises(InvalidRun) as caught:
        park_sync(queue.id, [*numbers(3), template, *numbers(2, start=4)], client=client)

    assert caught.value.position == 3
    assert caught.value.parked_count in (0, 3)


def test_a_generator_is_read_a_chunk_at_a_time(deploy, client):
    queue = deploy(limit=1)
    read = 0
    parked = 0
    ahead = []

    def on_parked(runs):
        nonlocal parked
        parked += len(runs)
        ahead.append(read - parked)

    def rows():
        nonlocal read
        for number in range(450):
            read += 1
            yield {"number": number}

    park_sync(queue.id, rows(), client=client, on_parked=on_parked)

    assert max(ahead) <= 100


def test_nothing_happens_for_an_empty_submission(deploy, client):
    assert park_sync(deploy(limit=1).id, [], client=client) == []
    assert park_sync(deploy(limit=1).id, iter([]), client=client) == []


def test_an_unknown_deployment_is_refused_with_the_nearest_names(deploy, client):
    queue = deploy(limit=1)
    flow_name = queue.name.split("/")[0]

    with pytest.raises(DeploymentNotFound, match=f"Did you mean '{queue.name}'"):
        park_sync(f"{flow_name}/queeu", numbers(1), client=client)


@pytest.mark.parametrize("name", ["no-slash", "a/b/../c", "a/%2e%2e", "a?b/c#d", "é/ü", "a/b c"])
def test_a_name_is_data_and_never_part_of_the_address(client, name):
    with pytest.raises(DeploymentNotFound):
        park_sync(name, numbers(1), client=client)


def test_an_unknown_id_is_refused(client):
    with pytest.raises(DeploymentNotFound, match="00000000-0000-0000-0000-000000000001"):
        park_sync(UUID(int=1), numbers(1), client=client)


def test_cancel_new_is_refused_before_anything_is_created(deploy, client):
    queue = deploy(limit=1, strategy="CANCEL_NEW")

    with pytest.raises(DeploymentRefused, match="CANCEL_NEW"):
        park_sync(queue.id, numbers(2), client=client)

    assert waiting_numbers(client, queue) == []


def test_a_deployment_without_a_limit_is_parked_promoted_and_told_of(deploy, client, caplog):
    queue = deploy(limit=None)

    assert queue.states(queue.park(3)) == ["Late", "Late", "Late"]
    assert "it has no concurrency limit: every parked run is promoted at once" in caplog.text


def test_a_limit_that_is_shared_is_told_of(deploy, client, caplog):
    made = client.request("POST", "/v2/concurrency_limits/", json={"name": "warehouse", "limit": 1}).json()
    queue = deploy(limit=None, global_concurrency_limit_id=made["id"])

    queue.park(1)

    assert "its concurrency limit 'warehouse' is not its own" in caplog.text


def test_a_tag_on_the_deployment_itself_is_told_of(deploy, client, caplog):
    deploy(limit=1, tags=[PARKED_TAG]).park(1)

    assert "take the tag off the deployment" in caplog.text


def test_one_mapping_is_no_list_of_runs(deploy, client):
    with pytest.raises(TypeError, match="runs is one dict; pass a list of mappings"):
        park_sync(deploy(limit=1).id, {"number": 1}, client=client)


def test_all_that_a_request_asks_for_reaches_the_run(deploy, client):
    queue = deploy(limit=1, tags=["from-deployment"])
    request = RunRequest(
        {"number": 1}, name="named", tags=("own",), context={"a": 1}, labels={"team": "x"}, job_variables={"env": {}}
    )

    run = queue.read(park_sync(queue.id, [request], client=client)[0].flow_run_id)

    assert run.name == "named"
    assert set(run.tags) == {"own", "from-deployment", PARKED_TAG}
    assert run.context == {"a": 1}
    assert run.labels["team"] == "x"
    assert run.job_variables == {"env": {}}


def test_another_list_under_a_key_that_was_used_is_refused(deploy, client):
    queue = deploy(limit=1, parameters={"table": "the deployment's own"})
    rows = [{"number": number, "share": number / 3, "more": {"z": [1.0, 1e23], "a": None}} for number in range(3)]
    first = park_sync(queue.id, rows, submission_key="s", client=client)
    queue.cancel(first[0])

    again = park_sync(queue.id, rows, submission_key="s", client=client)
    with pytest.raises(InvalidRun, match="already has another run at this position, with other parameters"):
        park_sync(queue.id, [{**rows[0], "table": "mine"}], submission_key="s", client=client)

    assert [run.flow_run_id for run in again] == [run.flow_run_id for run in first]
    assert all(run.already_there for run in again)
    assert waiting_numbers(client, queue) == [0, 1, 2]


@pytest.mark.parametrize(
    ("before", "after"), [({"region": "eu"}, {}), ({}, {"region": "eu"}), ({"region": "eu"}, {"region": "us"})], ids=str
)
def test_the_same_key_again_adds_nothing_after_the_deployments_defaults_were_changed(deploy, client, before, after):
    queue = deploy(limit=1, parameters=before)
    first = park_sync(queue.id, numbers(2), submission_key="s", client=client)
    client.request("PATCH", f"/deployments/{queue.id}", json={"parameters": after})

    again = park_sync(queue.id, numbers(2), submission_key="s", client=client)

    assert [run.flow_run_id for run in again] == [run.flow_run_id for run in first]
    assert all(run.already_there for run in again)

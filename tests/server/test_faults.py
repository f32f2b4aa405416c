"""Every kind of bad weather at every request of every flow, for both clients, over a real link to a real server.

What must hold each time: nothing raised into a flow, nothing lost, nothing doubled, no run started twice, order; and
once the weather is over a sweep leaves no slot idle.
"""

import anyio
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue import (
    fill_free_slots,
    fill_free_slots_sync,
    park,
    park_sync,
    sweep,
    sweep_sync,
)
from ordered_queue._steps import server as server_steps
from tests.conftest import on_postgresql
from tests.server.link import FAULTS, linked
from tests.server.test_park import numbers, waiting_numbers

QUICK = [name for name in FAULTS if "hangs" not in name and "delay" not in name]
SLOW = [name for name in FAULTS if name not in QUICK]
FILL_REQUESTS = 5

in_the_sync_form = pytest.mark.parametrize("through", ["sync"], indirect=True)
"""Both forms run the same steps; where the weather is slow or the cells are many, one form does."""

PARK_REQUESTS = 6  # deployment, version, earlier runs, end of the queue, create, read back; then a fill


@pytest.fixture(scope="module")
def link(server):
    with linked(server.api_url) as made:
        yield made


@pytest.fixture(params=["async", "sync"])
def through(request, link):
    """Call a public name through the link: ``through(async_name, sync_name, *arguments)``."""

    def call(async_name, sync_name, *arguments, **options):
        async def main():
            async with get_client(httpx_settings={"timeout": 34}) as client:
                return await async_name(client, *arguments, **options)

        with temporary_settings(updates={PREFECT_API_URL: link.api_url}):
            if request.param == "async":
                return anyio.run(main)
            with get_client(httpx_settings={"timeout": 35}, sync_client=True) as client:
                return sync_name(client, *arguments, **options)

    return call


async def park_async(client, deployment_id, runs, key):
    return await park(deployment_id, runs, submission_key=key, client=client)


def park_now(client, deployment_id, runs, key):
    return park_sync(deployment_id, runs, submission_key=key, client=client)


@pytest.fixture
def freed(deploy):
    """A queue with a free slot and three waiting runs."""
    queue = deploy(limit=1)
    first, *waiting = queue.park(4)
    queue.cancel(first)
    return queue, waiting


def assert_promoted_once(queue, waiting):
    assert queue.states(waiting) == ["Late", "Parked", "Parked"]
    assert queue.history(waiting[0]).count("Late") == 1


@pytest.mark.parametrize("fault", QUICK)
@pytest.mark.parametrize("request_number", range(1, FILL_REQUESTS + 1))
def test_a_fill_gets_through_any_weather_at_any_request(freed, link, through, fault, request_number):
    assert_fill_gets_through(freed, link, through, fault, request_number)


def assert_fill_gets_through(freed, link, through, fault, request_number):
    queue, waiting = freed
    link.strike(request_number, fault)

    assert through(fill_free_slots, fill_free_slots_sync, queue.id) == 1

    assert not link.faults, "the fault did not strike"
    assert_promoted_once(queue, waiting)


@in_the_sync_form
@pytest.mark.parametrize("fault", SLOW)
@pytest.mark.parametrize("request_number", [1, FILL_REQUESTS])
def test_a_fill_gets_through_a_link_that_hangs(freed, link, through, fault, request_number):
    queue, waiting = freed
    link.strike(request_number, fault)

    assert through(fill_free_slots, fill_free_slots_sync, queue.id) == 1

    assert_promoted_once(queue, waiting)


@pytest.mark.parametrize("fault", QUICK)
def test_a_sweep_gets_through_any_weather_as_it_lists_the_queues(freed, link, through, fault):
    """Its other requests are those of a fill."""
    queue, waiting = freed
    link.strike(1, fault)

    through(sweep, sweep_sync)

    assert not link.faults, "the fault did not strike"
    assert_promoted_once(queue, waiting)


@in_the_sync_form
@pytest.mark.parametrize("fault", QUICK)
@pytest.mark.parametrize("request_number", range(1, PARK_REQUESTS + 1))
def test_a_submission_gets_through_any_weather_at_any_request(deploy, client, link, through, fault, request_number):
    assert_submission_gets_through(deploy(limit=1), client, link, through, fault, request_number)


def test_a_submission_gets_through_when_the_answer_that_created_its_runs_hangs(
    deploy, client, link, through, monkeypatch
):
    # A submission waits a minute for an answer; here it must not.
    monkeypatch.setattr("ordered_queue._steps.park.ATTEMPT_SECONDS", 2.0)

    assert_submission_gets_through(deploy(limit=1), client, link, through, "answer hangs", PARK_REQUESTS - 1)


def assert_submission_gets_through(queue, client, link, through, fault, request_number):
    # The server's version is asked for once in a process; here it is one of the requests.
    server_steps._known_good.clear()
    link.strike(request_number, fault)

    runs = through(park_async, park_now, queue.id, numbers(7), "s")

    assert not link.faults, "the fault did not strike"
    assert [run.position for run in runs] == list(range(7))
    assert waiting_numbers(client, queue) == list(range(7))
    assert queue.states(runs) == ["Late", *["Parked"] * 6]


@in_the_sync_form
@pytest.mark.parametrize("fault", QUICK)
def test_a_submission_stands_when_the_fill_behind_it_meets_bad_weather(deploy, client, link, through, fault):
    queue = deploy(limit=1)
    server_steps._known_good.clear()
    link.strike(PARK_REQUESTS + FILL_REQUESTS, fault)

    runs = through(park_async, park_now, queue.id, numbers(3), "s")

    assert queue.states(runs) == ["Late", "Parked", "Parked"]


def test_a_lost_answer_that_created_runs_doubles_none(deploy, client, link, through):
    queue = deploy(limit=1)
    server_steps._known_good.clear()
    link.strike(PARK_REQUESTS - 1, "answer lost")

    runs = through(park_async, park_now, queue.id, numbers(100), "s")

    assert len({run.flow_run_id for run in runs}) == 100
    assert waiting_numbers(client, queue) == list(range(100))


@on_postgresql
@in_the_sync_form
@pytest.mark.parametrize("fault", QUICK)
def test_a_promotion_gets_through_any_weather_on_postgresql_too(freed, link, through, fault):
    """Its write, where another database commits in another way."""
    assert_fill_gets_through(freed, link, through, fault, FILL_REQUESTS)


@on_postgresql
@in_the_sync_form
@pytest.mark.parametrize("fault", QUICK)
def test_a_submission_gets_through_any_weather_on_postgresql_too(deploy, client, link, through, fault):
    """The same."""
    assert_submission_gets_through(deploy(limit=1), client, link, through, fault, PARK_REQUESTS - 1)

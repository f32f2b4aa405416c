"""The quick poll with a poller that only counts."""

import dataclasses
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.events.schemas.events import Event
from prefect.settings import PREFECT_API_URL, temporary_settings

import ordered_queue._events
import ordered_queue._quick_poll
from ordered_queue import PARKED_TAG
from ordered_queue._events import AT_ONCE_AND_AGAIN
from ordered_queue._quick_poll import Poller, QuickPoll

DEPLOYMENT = UUID(int=5)
BOUND_SECONDS = 30

pytestmark = pytest.mark.anyio


def an_event(name, flow_run_id, tag=PARKED_TAG):
    return Event(
        event=f"prefect.flow-run.{name}",
        resource={"prefect.resource.id": f"prefect.flow-run.{flow_run_id}"},
        related=[
            {"prefect.resource.id": f"prefect.deployment.{DEPLOYMENT}", "prefect.resource.role": "deployment"},
            {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"},
        ],
    )


class Counting:
    """A poller that counts its polls, and takes what it is told to."""

    def __init__(self):
        self.polls = 0
        self.polled = anyio.Event()
        self.takes = set()
        self.fails = False

    async def poll(self):
        self.polls += 1
        self.polled.set()
        self.polled = anyio.Event()
        if self.fails:
            raise OSError("the server is away")
        return self.takes

    async def no_resources(self):
        await anyio.sleep_forever()

    async def sweep(self, client):
        return []

    def poller(self):
        return Poller("Test", self.poll, self.no_resources, lambda _: AT_ONCE_AND_AGAIN, self.sweep)

    async def has_polled(self, times=1):
        with anyio.fail_after(BOUND_SECONDS):
            while self.polls < times:
                await self.polled.wait()


@pytest.fixture
async def counting():
    with temporary_settings(updates={PREFECT_API_URL: "http://prefect.test/api"}):
        yield Counting()


@pytest.fixture
async def quick_poll(counting):
    made = QuickPoll(counting.poller())
    made._connected(True)
    made.start()
    yield made
    await made.stop()


async def test_a_burst_of_promotions_becomes_few_polls(quick_poll, counting):
    for number in range(1000):
        quick_poll._take(an_event("Late", uuid4()))
        if number % 100 == 0:
            await anyio.lowlevel.checkpoint()
    await counting.has_polled()
    await anyio.sleep(0.5)  # whatever polls it still makes of them are due by now

    assert 1 <= counting.polls <= 12


async def test_a_promotion_that_no_poll_finds_is_polled_for_again(quick_poll, counting):
    quick_poll._take(an_event("Late", uuid4()))

    await counting.has_polled(2)


@pytest.mark.parametrize("by", ["us", "another"])
async def test_a_run_that_was_taken_is_polled_for_no_more(quick_poll, counting, by):
    run, next_run = uuid4(), uuid4()
    counting.takes = {run} if by == "us" else set()
    quick_poll._take(an_event("Late", run))
    await counting.has_polled()
    if by == "another":
        quick_poll._take(an_event("Pending", run))
    seen = counting.polls

    await anyio.sleep(1.5)  # past the second look

    assert counting.polls == seen
    # And it has not fallen asleep.
    quick_poll._take(an_event("Late", next_run))
    await counting.has_polled(seen + 1)


async def test_the_event_of_a_run_that_we_promoted_and_took_makes_no_poll(quick_poll, counting):
    run = uuid4()
    counting.takes = {run}
    quick_poll._we_promoted([run])
    await counting.has_polled()

    quick_poll._take(an_event("Late", run))
    await anyio.sleep(0.3)
    assert counting.polls == 1

    # Bounced and promoted again, it is news.
    quick_poll._take(an_event("AwaitingConcurrencySlot", run))
    quick_poll._take(an_event("Late", run))
    await counting.has_polled(2)


async def test_another_ones_late_run_makes_no_poll(quick_poll, counting):
    quick_poll._take(an_event("Late", uuid4(), tag="other"))
    await anyio.sleep(0.3)

    assert counting.polls == 0


async def test_a_poll_that_fails_is_told_of_and_repeated(quick_poll, counting, caplog):
    counting.fails = True
    quick_poll._take(an_event("Late", uuid4()))

    await counting.has_polled(2)

    assert "the server is away" in caplog.text


async def test_the_end_of_a_process_fills_and_polls_for_what_found_no_room(quick_poll, counting, monkeypatch):
    fills = []

    async def promote_next(client, deployment_id):
        fills.append(deployment_id)
        return []

    monkeypatch.setattr(ordered_queue._events, "promote_next", promote_next)
    quick_poll._take(an_event("Late", uuid4()))
    await counting.has_polled(2)

    quick_poll.process_ended(DEPLOYMENT, is_final=True)

    await counting.has_polled(3)
    assert fills == [DEPLOYMENT]


async def test_what_breaks_it_does_not_reach_the_poller(counting, caplog, monkeypatch):
    starts = []
    begun_again = anyio.Event()

    async def resources():
        starts.append(None)
        if len(starts) == 1:
            raise RuntimeError("a mistake of ours")
        begun_again.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(ordered_queue._quick_poll, "START_AGAIN_SECONDS", 0.01)
    quick_poll = QuickPoll(dataclasses.replace(counting.poller(), resources=resources))
    quick_poll.start()
    with anyio.fail_after(BOUND_SECONDS):
        await begun_again.wait()

    quick_poll._take(an_event("Late", uuid4()))

    await counting.has_polled()
    assert "a mistake of ours" in caplog.text
    await quick_poll.stop()
    await quick_poll.stop()

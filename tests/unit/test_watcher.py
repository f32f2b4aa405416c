from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

import anyio
import pytest
from prefect.events.schemas.events import Event

import ordered_queue._events
from ordered_queue._events import lag_teller, queue_of
from ordered_queue.cli import main
from ordered_queue.watcher import Watching, _fill_what_is_named, watch

DEPLOYMENT = UUID(int=5)


def an_event(name: str, related: list[str] | None = None) -> Event:
    resources = [f"prefect.deployment.{DEPLOYMENT}"] if related is None else related
    return Event(
        event=name,
        resource={"prefect.resource.id": f"prefect.flow-run.{uuid4()}"},
        related=[
            {"prefect.resource.id": resource, "prefect.resource.role": resource.split(".")[1]} for resource in resources
        ],
    )


@pytest.mark.parametrize("name", ["Completed", "Failed", "Crashed", "Cancelled", "AwaitingConcurrencySlot", "Parked"])
def test_an_event_that_may_free_a_slot_or_bring_a_run_names_its_queue(name):
    related = ["prefect.tag.ordered-queue", "prefect.flow.1", f"prefect.deployment.{DEPLOYMENT}"]

    assert queue_of(an_event(f"prefect.flow-run.{name}", related)) == DEPLOYMENT


@pytest.mark.parametrize("name", ["Pending", "Running", "Late", "heartbeat"])
def test_an_event_that_frees_nothing_names_no_queue(name):
    assert queue_of(an_event(f"prefect.flow-run.{name}")) is None


@pytest.mark.parametrize("related", [[], ["prefect.flow.1"], ["prefect.deployment.not-an-id"]])
def test_a_run_without_a_deployment_names_no_queue(related):
    assert queue_of(an_event("prefect.flow-run.Completed", related)) is None


@pytest.mark.anyio
async def test_a_thousand_events_become_few_fills(monkeypatch):
    fills = []

    async def fill(client, deployment_id):
        fills.append(deployment_id)
        await anyio.lowlevel.checkpoint()
        return [uuid4()]

    monkeypatch.setattr(ordered_queue._events, "promote_next", fill)
    watching = Watching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_fill_what_is_named, None, watching)
        for number in range(1000):
            watching.queues.name(DEPLOYMENT)
            if number % 100 == 0:
                await anyio.lowlevel.checkpoint()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    assert 1 <= len(fills) <= 12


def test_the_watcher_says_that_it_is_behind_once_and_not_of_what_it_is_told_again(caplog):
    connected = datetime.now(timezone.utc) - timedelta(minutes=5)
    tell = lag_teller("Watcher", connected)

    tell(connected - timedelta(seconds=1))
    assert "behind" not in caplog.text
    tell(connected + timedelta(minutes=1))
    tell(connected + timedelta(minutes=1))
    assert caplog.text.count("behind the event stream") == 1


@pytest.mark.anyio
async def test_a_bad_interval_is_refused():
    with pytest.raises(ValueError, match="more than 0"):
        await watch(sweep_seconds=0)


def test_the_command_refuses_a_bad_interval(capsys):
    assert main(["watch", "--sweep-seconds", "0"]) == 2
    assert "must be more than 0" in capsys.readouterr().err

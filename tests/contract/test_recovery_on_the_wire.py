"""What start-up recovery says of the queues that it found."""

import logging

import anyio
import httpx
import pytest
from prefect.runner import Runner

from ordered_queue._quick_poll import recover
from ordered_queue.runner import poller_of
from tests.contract.test_fill_on_the_wire import DEPLOYMENT, as_json
from tests.factories import a_deployment

NOTHING_TO_DO = httpx.Response(200, json=as_json(a_deployment(0)))


@pytest.mark.parametrize(
    ("answer", "ending"),
    [(NOTHING_TO_DO, "1 queue(s)."), (httpx.Response(403), "1 queue(s), 1 could not be filled.")],
    ids=["filled", "not filled"],
)
def test_recovery_says_how_many_queues_could_not_be_filled(wire, caplog, answer, ending):
    wire.get(f"/deployments/{DEPLOYMENT}").mock(return_value=answer)

    with caplog.at_level(logging.INFO):
        anyio.run(recover, poller_of(Runner(), [DEPLOYMENT]).sweep)

    told = [line for line in caplog.messages if "Start-up" in line]
    assert told == [f"Start-up recovery: 0 run(s) promoted in {ending}"]

"""Parameters from a generator never sit in memory at once, whoever of us, of Prefect or of httpx might hold them.

Counted are dicts, not bytes: the memory of a process also grows by what is returned, one small object for each run.
"""

import gc
import json
from datetime import timedelta
from types import SimpleNamespace

from ordered_queue._calls import CHUNK
from ordered_queue._steps.effects import Answer, Send
from ordered_queue._steps.park import Parking, Submission, park
from tests.contract.test_fill_on_the_wire import DEPLOYMENT, as_json
from tests.contract.test_park_on_the_wire import Server
from tests.factories import NOW, a_deployment

MARK = "a row of this test"

MOST_HELD = 3 * CHUNK
"""The chunk that is being parked, the one that is read meanwhile, and the last answer."""


class Counted:
    """A generator's worth of rows, each with a mark, that looks now and then how many of them are in memory."""

    def __init__(self, count, look_every):
        self.count = count
        self.look_every = look_every
        self.most_held = 0

    def rows(self):
        for number in range(self.count):
            if number % self.look_every == self.look_every - 1:
                self.most_held = max(self.most_held, marked_dicts())
            yield {MARK: [number]}


def marked_dicts():
    """How many dicts with our mark there are: rows, and every copy that anybody made of them.

    What holds a list is known to the garbage collector.
    """
    return sum(type(each) is dict and MARK in each for each in gc.get_objects())


def test_dicts_from_a_generator_are_let_go_of_as_they_are_parked(wire, calls):
    server = Server(wire)
    counted = Counted(1_000, look_every=499)

    parked = calls.park(DEPLOYMENT, counted.rows(), on_parked=lambda _: server.runs.clear())

    assert [run.position for run in parked] == list(range(counted.count))
    assert 0 < counted.most_held <= MOST_HELD


def test_100_000_dicts_from_a_generator_are_let_go_of_as_they_are_parked(wire):
    """The same steps, answered by the same server, without Prefect's client, which would take longer."""
    server = Server(wire)
    counted = Counted(100_000, look_every=19_999)
    minute = timedelta(minutes=1)
    submission = Submission(
        DEPLOYMENT, counted.rows(), "key", "1", timedelta(0), minute, minute, lambda _: server.runs.clear()
    )
    parking = Parking()

    drive(park(submission, parking), server)

    assert [run.position for run in parking.parked] == list(range(counted.count))
    assert 0 < counted.most_held <= MOST_HELD


def drive(steps, server):
    """Answer the steps from the server at hand."""
    answer = None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration:
            return
        answer = Answer(NOW, 0.0)
        if isinstance(effect, Send):
            answer = Answer(NOW, 0.0, 200, answered(effect.call, server), server="at hand")


def answered(call, server):
    request = SimpleNamespace(content=json.dumps(call.json))
    if call.path.endswith("/bulk"):
        return server.create(request).json()
    if call.path.endswith("/filter"):
        return server.filter(request).json()
    return "3.9.1" if call.path.endswith("/version") else as_json(a_deployment(1))

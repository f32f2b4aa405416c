"""What `doctor --fix` does: one remedy at a time, looked at again right before, read back right after.

Lowering the counter is one atomic request, so runs that start or end meanwhile are not miscounted.

Ending a zombie has a trap. Its lease lapsed, so the server has given its slot back already; yet when the run gets a
final state, the server finds no lease and takes another slot off the counter, that of some run which is alive
(Prefect 3.7.6 to 3.9.1, ``_release_concurrency_lease``). So the counter is raised by one first:

    1. look again: the rule must still name the run, in the same state
    2. ask for its lease: only a run whose lease is gone is ended
    3. raise the counter by one     4. propose the final state: the server lowers the counter by one

Stopped between 3 and 4, the counter is too high by one, which a later doctor finds. The other way round it would be too
low, and the server would start one run too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

from ordered_queue import _calls
from ordered_queue._doctor import calls
from ordered_queue._doctor.diagnosis import diagnose
from ordered_queue._doctor.findings import EndZombie, Finding, LowerCounter
from ordered_queue._doctor.look import PATIENCE, look
from ordered_queue._steps.effects import Patience, Steps, ask, malformed
from ordered_queue.counting import LEASE_DURATION
from ordered_queue.errors import RequestFailed

ONCE = Patience(attempt_seconds=30, total_seconds=0, most_attempts=1)
"""For requests that would do their work twice if they were sent twice."""


@dataclass(frozen=True)
class Outcome:
    """What came of a remedy.

    Attributes:
        is_fixed: whether it was done, and read back.
        words: what was done, or why not.
    """

    is_fixed: bool
    words: str


def apply(finding: Finding) -> Steps[Outcome]:
    """Do what the finding's remedy says, if a fresh look finds the same.

    Called twice, the second finds nothing to do.

    Raises:
        RequestFailed: it is not known what was done; look again.
    """
    remedy, deployment_id = finding.remedy, finding.deployment_id
    if remedy is None or deployment_id is None:
        return Outcome(False, "there is nothing that --fix could do")
    seen = yield from look(deployment_id)
    if all(fresh.remedy != remedy for fresh in diagnose(seen)):
        return Outcome(False, "it has changed since it was found; look again")
    if isinstance(remedy, LowerCounter):
        return (yield from _lower_counter(remedy))
    return (yield from _end_zombie(remedy))


def _lower_counter(remedy: LowerCounter) -> Steps[Outcome]:
    before = yield from _counter(remedy.limit_name)
    yield from ask(calls.lower_counter(remedy.limit_name, remedy.slots), ONCE)
    after = yield from _counter(remedy.limit_name)
    return Outcome(after < before, f"active_slots was {before} and is {after}")


def _end_zombie(remedy: EndZombie) -> Steps[Outcome]:
    try:
        yield from ask(calls.renew_lease(remedy.lease_id, LEASE_DURATION.total_seconds()), PATIENCE)
    except RequestFailed as error:
        if error.status != 410:
            raise
    else:
        return Outcome(False, "its lease is alive, so it is left alone; another run must be the zombie")
    yield from _raise_counter(remedy.limit_name)
    run = yield from _state_of(remedy.flow_run_id)
    if run.get("id") != str(remedy.state_id):
        return (yield from _left_alone(remedy, f"it is {run.get('name', 'gone')} by now"))
    try:
        yield from ask(calls.end_run(remedy.flow_run_id, remedy.state_type, uuid4()), PATIENCE)
    except RequestFailed as error:
        if error.status != 404:
            raise
    run = yield from _state_of(remedy.flow_run_id)
    if run.get("type") != remedy.state_type:
        return (yield from _left_alone(remedy, f"the server refused, it is {run.get('name', 'gone')}"))
    counter = yield from _counter(remedy.limit_name)
    return Outcome(True, f"flow run {remedy.flow_run_id} is {run.get('name')}; active_slots is {counter}")


def _left_alone(remedy: EndZombie, why: str) -> Steps[Outcome]:
    """Take back the slot that was taken for it."""
    yield from ask(calls.lower_counter(remedy.limit_name, 1), ONCE)
    return Outcome(False, f"left alone: {why}")


def _raise_counter(limit_name: str) -> Steps[None]:
    try:
        yield from ask(calls.raise_counter(limit_name), ONCE)
    except RequestFailed as error:
        if error.status != 423:
            raise
        # Full: no run can be entering, so the worst that a plain write can miss is one that leaves. The counter is
        # then too high, which is the harmless side.
        counter = yield from _counter(limit_name)
        yield from ask(calls.set_counter(limit_name, counter + 1), PATIENCE)


def _counter(limit_name: str) -> Steps[int]:
    call = calls.read_limit(limit_name)
    answer = yield from ask(call, PATIENCE)
    try:
        return int(answer.body["active_slots"])
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error


def _state_of(flow_run_id: UUID) -> Steps[dict[str, Any]]:
    """The run's state; empty if the run is gone."""
    call = _calls.read_run(flow_run_id)
    try:
        answer = yield from ask(call, PATIENCE)
    except RequestFailed as error:
        if error.status != 404:
            raise
        return {}
    try:
        return cast("dict[str, Any]", answer.body["state"] or {})
    except (KeyError, TypeError) as error:
        raise malformed(call, answer, error) from error

"""What an operator does with a whole queue: look at it, cancel a submission, hand it back to Prefect."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls, counting, promotion
from ordered_queue._calls import PAGE
from ordered_queue._steps.deployments import find_deployment
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, read_deployment
from ordered_queue._steps.fill import promote
from ordered_queue._steps.pages import EVERY_PAGE, MOST_PAGES, read_active, read_due, read_waiting
from ordered_queue._steps.sweep import list_queues
from ordered_queue.errors import RequestFailed
from ordered_queue.ordering import PARKED_TAG, is_out_of_reach, order_key, standing
from ordered_queue.runs import QueueListing, Standing
from ordered_queue.submission import SUBMISSION_LABEL

PATIENCE = Patience(attempt_seconds=30, total_seconds=60)


def list_queue(deployment: str | UUID | DeploymentResponse, most: int) -> Steps[QueueListing]:
    """Read a queue for an operator: everything that occupies, and the first `most` waiting runs.

    Runs out of every poller's reach are passed over, for as many pages as a fill passes over.

    Raises:
        DeploymentNotFound, RequestFailed: there is nothing to show.
    """
    found, answer = yield from find_deployment(deployment, PATIENCE)
    now = answer.now

    def wanted(read: list[FlowRun]) -> int:
        in_reach = sum(not is_out_of_reach(run, found.work_queue_id) for run in read)
        return PAGE if in_reach < len(read) and in_reach <= most else min(PAGE, max(0, most + 1 - in_reach))

    head, is_whole = yield from read_waiting(found.id, now, PATIENCE, wanted, 2 * most // PAGE + MOST_PAGES)
    due, due_is_whole = yield from read_due(found.id, now, PATIENCE)
    active, active_is_whole = yield from read_active(found.id, PATIENCE)
    runs = [*head, *due, *active]
    # By id: of a run that moved on between two reads the later one is the news.
    latest = {run.id: run for run in runs}.values()
    aside = {run.id: Standing.OUT_OF_REACH for run in latest if is_out_of_reach(run, found.work_queue_id)}
    if due_is_whole and active_is_whole:
        zombies = yield from _zombies(found, [run for run in latest if run.id not in aside], now)
        aside |= dict.fromkeys(zombies, Standing.ZOMBIE)
    decision = promotion.decide(runs, promotion.limit_of(found), now, aside=aside)
    return QueueListing(found, now, decision, is_whole)


def _zombies(found: DeploymentResponse, runs: list[FlowRun], now: datetime) -> Steps[list[UUID]]:
    """The zombies among all occupying runs, as a doctor would name them; one request more where there may be some."""
    before = counting.counter_of(found)
    if not counting.zombies_to_tell_of(runs, now, before, found):
        return []
    # The counter was read before the runs; only one read after them can tell a zombie from a run just started.
    deployment, _ = yield from read_deployment(_calls.read_deployment(found.id), PATIENCE)
    return list(counting.zombies_to_tell_of(runs, now, before, deployment))


def cancel_submission(submission_key: str, deployment_id: UUID | None, cancelled: list[UUID]) -> Steps[None]:
    """Cancel the runs of a submission that have not started, the last one first.

    From the tail, so that no run is promoted only to be cancelled. What runs already goes on. A second call finds
    nothing left to do.

    Args:
        submission_key: which submission.
        deployment_id: whose queue; None looks through all.
        cancelled: where to put what was cancelled.

    Raises:
        RequestFailed: what is in `cancelled` is cancelled; repeat the call.
    """
    moment = yield Sleep(0)
    deployment_ids = [deployment_id] if deployment_id is not None else (yield from list_queues())
    for each_id in deployment_ids:
        for run in reversed((yield from _not_started(each_id, moment.now))):
            if run.labels.get(SUBMISSION_LABEL) == submission_key and (yield from _cancel(run)):
                cancelled.append(run.id)


def _not_started(deployment_id: UUID, now: datetime) -> Steps[list[FlowRun]]:
    """What is promoted or due but not taken, then what waits, in order."""
    waiting, _ = yield from read_waiting(deployment_id, now, PATIENCE, lambda _: PAGE, EVERY_PAGE)
    due, _ = yield from read_due(deployment_id, now, PATIENCE, EVERY_PAGE)
    # By id: a run that is promoted between the two reads is in both, and the later one is the news.
    runs = {run.id: run for run in [*waiting, *due]}.values()
    taken_next = [run for run in runs if standing(run, now) in (Standing.PROMOTED, Standing.OUTSIDER)]
    return [*taken_next, *sorted((run for run in runs if standing(run, now) is Standing.WAITING), key=order_key)]


def _cancel(run: FlowRun) -> Steps[bool]:
    """Cancel a run unless it has started since it was listed, which for a long submission is minutes ago.

    What remains is the time between two requests; Prefect has no cancellation that a started run refuses.
    """
    try:
        answer = yield from ask(_calls.read_run(run.id), PATIENCE)
        current: dict[str, object] = answer.body.get("state") or {}
        if current.get("type") != "SCHEDULED":
            return False
        answer = yield from ask(_calls.cancel(run.id, uuid4()), PATIENCE)
    except RequestFailed as error:
        if error.status == 404:
            return False
        raise
    state: dict[str, object] = answer.body.get("state") or {}
    return state.get("type") in ("CANCELLED", "CANCELLING")


def unpark(deployment: str | UUID | DeploymentResponse, unparked: list[UUID]) -> Steps[None]:
    """Hand every waiting run back to Prefect's own ways: due now, in order, no longer a member.

    Each run is promoted first and untagged after: stopped in between, it is merely a promoted run. A second call
    goes on where the first one stopped.

    Raises:
        DeploymentNotFound, RequestFailed: what is in `unparked` is handed back; repeat the call.
    """
    found, answer = yield from find_deployment(deployment, PATIENCE)
    not_started = yield from _not_started(found.id, answer.now)
    waiting = [run for run in not_started if standing(run, answer.now) is Standing.WAITING]
    times = promotion.promotion_times(answer.now, len(waiting))
    for run, when in zip(waiting, times, strict=True):
        yield from promote(run.id, when, PATIENCE, _calls.UNPARKED_MESSAGE)
    for run in not_started:
        if PARKED_TAG in run.tags:
            yield from ask(_calls.replace_tags(run.id, [tag for tag in run.tags if tag != PARKED_TAG]), PATIENCE)
            unparked.append(run.id)

"""Park one chunk of a submission: create it in one request, read it back, create again what is missing.

What is missing is retried with the same keys and the same times before the next chunk is sent, so order outlives
retries.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls
from ordered_queue._steps.effects import Patience, Sleep, Steps, ask, ask_for_runs, malformed
from ordered_queue.errors import InvalidRun, RequestFailed
from ordered_queue.ordering import PARK_DELAY, SPACING, aware
from ordered_queue.runs import ParkedRun
from ordered_queue.submission import PreparedRun

ATTEMPT_SECONDS = 60.0
"""How long one request of a submission may take: a busy SQLite server needs a while for 100 runs."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
"""Short, because SQLite lets whoever comes at the right moment write: who waits long starves among many."""


def already_there(
    deployment: DeploymentResponse, chunk: list[PreparedRun], patience: Patience
) -> Steps[dict[str, FlowRun]]:
    """Which runs of the chunk an earlier call with the same key has parked, by idempotency key."""
    call = _calls.runs_by_key(deployment.id, [run.key for run in chunk])
    runs = yield from ask_for_runs(call, patience)
    return {run.idempotency_key: run for run in runs if run.idempotency_key is not None}


def _base_of_holes(chunk: list[PreparedRun], known: dict[str, FlowRun], base: datetime) -> tuple[int, datetime]:
    """Up to which position a missing run belongs in front of one that is there, and from which base those count."""
    found = [(run.position, known[run.key].expected_start_time) for run in chunk if run.key in known]
    times = [(position, time) for position, time in found if time is not None]
    if not times:
        return -1, base
    last, time = max(times)
    return last, aware(time, "expected_start_time") - PARK_DELAY - last * SPACING


def park_chunk(
    deployment: DeploymentResponse,
    chunk: list[PreparedRun],
    known: dict[str, FlowRun],
    base: datetime,
    submission_key: str,
    patience: Patience,
    parked: dict[str, ParkedRun],
) -> Steps[None]:
    """Create a chunk's runs and read them back, until all are there or patience ends.

    Args:
        deployment: whose queue.
        chunk: the runs, in order.
        known: those that an earlier call parked, by key.
        base: what the parked times of new runs count from.
        submission_key: for what the caller gets.
        patience: how long one request is asked for, and how long to go on without progress.
        parked: where to put each run that was read back, by key; it tells the truth also when this raises.

    Raises:
        InvalidRun: the server refuses a row. Later rows of the same chunk may be parked.
        RequestFailed: patience ran out.
    """
    for run in chunk:
        if run.key in known:
            parked[run.key] = _parked(run, known[run.key], submission_key, True)
    last_known, base_of_holes = _base_of_holes(chunk, known, base)
    moment = yield Sleep(0)
    give_up_at = moment.elapsed_seconds + patience.total_seconds
    pause = FIRST_PAUSE_SECONDS
    while missing := [run for run in chunk if run.key not in parked]:
        bodies = [run.create_body(base_of_holes if run.position < last_known else base) for run in missing]
        results, problem = yield from _create(deployment, bodies, missing, patience)
        read = yield from _read_back(deployment, missing, results, patience)
        for run, flow_run in read:
            parked[run.key] = _parked(run, flow_run, submission_key, False)
        if len(read) == len(missing):
            return
        moment = yield Sleep(0)
        if read:
            give_up_at = moment.elapsed_seconds + patience.total_seconds
            pause = FIRST_PAUSE_SECONDS
        if moment.elapsed_seconds + pause > give_up_at:
            problem = problem or "the server said CREATED, but not all of the runs are there"
            raise RequestFailed("Creating runs", 200, problem)
        yield Sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _create(
    deployment: DeploymentResponse, bodies: list[dict[str, Any]], runs: list[PreparedRun], patience: Patience
) -> Steps[tuple[list[UUID | None], str]]:
    """Send one bulk request; the ids it claims to have made, and why it made no more.

    Raises:
        InvalidRun: the server refuses a row for what it holds.
    """
    call = _calls.create_runs(deployment.id, bodies)
    try:
        answer = yield from ask(call, patience)
    except RequestFailed as error:
        if error.status == 422:
            raise InvalidRun(*_blame(error, runs)) from error
        raise
    try:
        results = cast("list[dict[str, str | None]]", answer.body["results"])
        pairs = list(zip(runs, results, strict=True))
        failed = [(run, result.get("error") or "") for run, result in pairs if result["status"] != "CREATED"]
        ids = [UUID(str(result["flow_run_id"])) if result["status"] == "CREATED" else None for _, result in pairs]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error
    for run, problem in failed:
        if problem.startswith(
            ("Parameter validation failed", "Validation failed", "Error hydrating", "Invalid schema")
        ):
            raise InvalidRun(run.position, f"{problem.rstrip('.')}.")
    return ids, failed[0][1] if failed else ""


def _blame(error: RequestFailed, runs: list[PreparedRun]) -> tuple[int, str]:
    """Which row a 422 is about; the server names it as ``body.INDEX.…``."""
    for part in error.reason.replace(".", " ").split():
        if part.isdigit() and int(part) < len(runs):
            return runs[int(part)].position, f"{error.reason}."
    return runs[0].position, f"it or one of the {len(runs) - 1} runs after it is refused by the server: {error.reason}."


def _read_back(
    deployment: DeploymentResponse, runs: list[PreparedRun], ids: list[UUID | None], patience: Patience
) -> Steps[list[tuple[PreparedRun, FlowRun]]]:
    """The runs that are really there, of those that the server said it created.

    Raises:
        InvalidRun: a key is taken by a run of another deployment. Prefect keeps keys unique per flow and answers
            CREATED with that run.
    """
    claimed = [run_id for run_id in ids if run_id is not None]
    if not claimed:
        return []
    there = {run.id: run for run in (yield from ask_for_runs(_calls.runs_by_id(claimed), patience))}
    found: list[tuple[PreparedRun, FlowRun]] = []
    for run, run_id in zip(runs, ids, strict=True):
        if run_id is None or run_id not in there:
            continue
        flow_run = there[run_id]
        if flow_run.deployment_id != deployment.id:
            raise InvalidRun(
                run.position,
                f"its idempotency key {run.key!r} belongs to flow run {run_id} of deployment {flow_run.deployment_id}; "
                "keys are unique within a flow.",
            )
        found.append((run, flow_run))
    return found


def _parked(run: PreparedRun, flow_run: FlowRun, submission_key: str, already_there: bool) -> ParkedRun:
    time = flow_run.expected_start_time
    if time is None:
        raise RequestFailed(f"Reading flow run {flow_run.id} back", 200, "it has no expected start time")
    return ParkedRun(
        flow_run.id, run.position, aware(time, "expected_start_time"), flow_run.name, submission_key, already_there
    )

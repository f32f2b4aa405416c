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
from ordered_queue.ordering import PARK_DELAY, SPACING, aware, parked_time
from ordered_queue.repetition import is_same_request
from ordered_queue.runs import ParkedRun
from ordered_queue.submission import SUBMISSION_LABEL, PreparedRun

ATTEMPT_SECONDS = 60.0
"""How long one request of a submission may take: a busy SQLite server needs a while for 100 runs."""

OF_THE_DATABASE = ("database is locked", "deadlock", "sqlite3.", "sqlalchemy.", "asyncpg.", "psycopg")
"""In what an item of a bulk request says when the database failed it. Any other word is about the row, and stays so."""

SQL_MARK = "[SQL:"
"""Where the database's own words begin, which hold the parameters of the run."""

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


def _bases_of_holes(
    chunk: list[PreparedRun], known: dict[str, FlowRun], submission_key: str, now: datetime
) -> dict[str, datetime]:
    """From which base those missing runs count that belong in front of one that is there, by key.

    Only runs that this very submission parked say anything of its times: a key of the caller's own may belong to a run
    of another submission, or to one that was never parked. What would be due by now is no hole any more: it appends.
    """
    bases: dict[str, datetime] = {}
    base: datetime | None = None
    for run in reversed(chunk):
        there = known.get(run.key)
        if there is None:
            if base is not None and parked_time(base, run.position) > now:
                bases[run.key] = base
        elif _is_of_submission(there, submission_key) and there.expected_start_time is not None:
            base = aware(there.expected_start_time, "expected_start_time") - PARK_DELAY - run.position * SPACING
    return bases


def _is_of_submission(flow_run: FlowRun, submission_key: str) -> bool:
    return flow_run.labels.get(SUBMISSION_LABEL) == submission_key


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
        InvalidRun: the server refuses a row, or its key is taken. Later rows of the same chunk may be parked.
        RequestFailed: patience ran out.
    """
    for run in chunk:
        if run.key in known:
            _refuse_another(known[run.key], run, deployment, submission_key)
            parked[run.key] = _parked(run, known[run.key], submission_key, True)
    moment = yield Sleep(0)
    bases = _bases_of_holes(chunk, known, submission_key, moment.now)
    give_up_at = moment.elapsed_seconds + patience.total_seconds
    pause = FIRST_PAUSE_SECONDS
    while missing := [run for run in chunk if run.key not in parked]:
        bodies = [run.create_body(bases.get(run.key, base)) for run in missing]
        results, problem = yield from _create(deployment, bodies, missing, patience)
        read = yield from _read_back(deployment, missing, results, patience)
        for run, flow_run in read:
            _refuse_another(flow_run, run, deployment, submission_key)
            is_new = _is_of_submission(flow_run, submission_key)
            parked[run.key] = _parked(run, flow_run, submission_key, already_there=not is_new)
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
        failed = [(run, _said(result)) for run, result in pairs if result["status"] != "CREATED"]
        ids = [UUID(str(result["flow_run_id"])) if result["status"] == "CREATED" else None for _, result in pairs]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise malformed(call, answer, error) from error
    for run, problem in failed:
        if problem and not any(mark in problem for mark in OF_THE_DATABASE):
            raise InvalidRun(run.position, f"{problem.rstrip('.')}.")
    return ids, failed[0][1] if failed else ""


def _said(result: dict[str, str | None]) -> str:
    """Why the server did not create a row, without the row's own parameters."""
    return (result.get("error") or "").split(SQL_MARK)[0].strip()


def _blame(error: RequestFailed, runs: list[PreparedRun]) -> tuple[int, str]:
    """Which row a 422 is about; the server names it as ``body.INDEX.…``."""
    for part in error.reason.replace(".", " ").split():
        if part.isdigit() and int(part) < len(runs):
            return runs[int(part)].position, f"{error.reason}."
    return runs[0].position, f"it or one of the {len(runs) - 1} runs after it is refused by the server: {error.reason}."


def _read_back(
    deployment: DeploymentResponse, runs: list[PreparedRun], ids: list[UUID | None], patience: Patience
) -> Steps[list[tuple[PreparedRun, FlowRun]]]:
    """The runs that are really there, of those that the server said it created."""
    claimed = [run_id for run_id in ids if run_id is not None]
    if not claimed:
        return []
    there = {run.id: run for run in (yield from ask_for_runs(_calls.runs_by_id(claimed), patience))}
    pairs = zip(runs, ids, strict=True)
    return [(run, there[run_id]) for run, run_id in pairs if run_id is not None and run_id in there]


def _refuse_another(flow_run: FlowRun, run: PreparedRun, deployment: DeploymentResponse, submission_key: str) -> None:
    """Refuse a run that is there under a key, yet is not what is asked for.

    Source: for a key that it knows, Prefect answers CREATED with the run that has it, whatever else was sent. It keeps
    keys unique per flow.

    Raises:
        InvalidRun: the run is another deployment's, or has other parameters.
    """
    if flow_run.deployment_id != deployment.id:
        raise InvalidRun(
            run.position,
            f"its idempotency key {run.key!r} belongs to flow run {flow_run.id} of deployment "
            f"{flow_run.deployment_id}; keys are unique within a flow.",
        )
    if is_same_request(run.body["parameters"], flow_run.parameters):
        return
    if run.has_own_key:
        reason = f"idempotency key {run.key!r} already has another run, with other parameters; use a new key."
    else:
        reason = (
            f"submission {submission_key!r} already has another run at this position, with other parameters; use a "
            "new key for a new list."
        )
    raise InvalidRun(run.position, reason, advice="")


def _parked(run: PreparedRun, flow_run: FlowRun, submission_key: str, already_there: bool) -> ParkedRun:
    time = flow_run.expected_start_time
    if time is None:
        raise RequestFailed(f"Reading flow run {flow_run.id} back", 200, "it has no expected start time")
    return ParkedRun(
        flow_run.id, run.position, aware(time, "expected_start_time"), flow_run.name, submission_key, already_there
    )

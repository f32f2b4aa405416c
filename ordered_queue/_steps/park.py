"""Park a submission: every run exactly once, in order, each read back.

    read the deployment -> read the end of the queue -> for each chunk of 100:
        create (one request) -> read back by id -> create what is missing again, same keys, same times
    -> fill

A run counts as parked only when it was read back. The bulk route answers CREATED for rows that it then rolls back (one
database error in a chunk on PostgreSQL), and fails whole chunks inside a 200 answer ("database is locked" on SQLite).

Repeating a submission with its key:
    - what is there is found by its idempotency key and keeps its place;
    - a hole before it (a crash in the middle of a chunk) is filled at the time it would have had;
    - what was never sent appends behind what waits now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue import _calls
from ordered_queue._steps.chunk import ATTEMPT_SECONDS, already_there, park_chunk
from ordered_queue._steps.deployments import PATIENCE, find_deployment
from ordered_queue._steps.effects import Patience, Sleep, Steps, T, ask_for_runs
from ordered_queue._steps.fill import Filled, fill_whole
from ordered_queue._steps.server import require_server
from ordered_queue.errors import InvalidRun, OrderedQueueError, RequestFailed, SubmissionIncomplete, cause_of, shortened
from ordered_queue.ordering import PARK_DELAY, SPACING, submission_base
from ordered_queue.runs import ParkedRun
from ordered_queue.settings import most_parameter_bytes
from ordered_queue.submission import PreparedRun, Preparer
from ordered_queue.suitability import notes_on, refuse_unsuitable

FILL_EVERY_SECONDS = 5.0
"""How often a long submission fills the queue on its way, beside after its first chunk and its last."""

FARTHEST_TAIL = PARK_DELAY + timedelta(days=1)
"""Nothing parked by the rules lies farther ahead; what does was put there by hand and stays behind."""


@dataclass(frozen=True)
class Submission:
    """What is to be parked, and how.

    Attributes:
        deployment: "flow/deployment", an id or an object.
        runs: mappings of parameters or run requests. What can be iterated twice (a list) is checked as a whole before
            anything is created; a one-shot iterator is read and parked in chunks.
        key: the submission key.
        version: of this package, for the label.
        jitter: 0 to 999 µs, random.
        stall_timeout: how long to go on without progress before giving up.
        promoted_timeout: how long a due run that nobody takes counts as occupying.
        on_parked: given each chunk's runs once they are parked.
    """

    deployment: str | UUID | DeploymentResponse
    runs: Iterable[object]
    key: str
    version: str
    jitter: timedelta
    stall_timeout: timedelta
    promoted_timeout: timedelta
    on_parked: Callable[[Sequence[ParkedRun]], object]


@dataclass
class Parking:
    """What a submission has done so far.

    Attributes:
        parked: the runs read back, in order.
        notes: what the submitter should know.
    """

    parked: list[ParkedRun] = field(default_factory=list[ParkedRun])
    notes: list[str] = field(default_factory=list[str])


def park(submission: Submission, parking: Parking) -> Steps[None]:
    """Park the submission's runs behind what waits, then fill the queue.

    Raises:
        DeploymentNotFound, DeploymentRefused, InvalidRun: nothing was created (for a one-shot iterator: nothing
            from the bad row on).
        SubmissionIncomplete: how long a prefix is parked for certain.
        ServerTooOld: promotion would not be atomic on it.
        ValueError: the submission key is empty, too long, or holds what cannot be kept.
    """
    deployment, answer = yield from find_deployment(submission.deployment)
    refuse_unsuitable(deployment)
    yield from require_server(PATIENCE)
    parking.notes += notes_on(deployment)
    checked_count = _check_whole(submission, deployment)
    rows = iter(submission.runs)
    preparer = _preparer(submission, deployment)
    base: datetime | None = None
    looking_back = True
    filled_at = float("-inf")
    moment = answer
    chunk = _next_chunk(rows, preparer, 0)
    while chunk.runs:
        # A fresh submission asks once for earlier runs of its key; a repeated one asks until it meets a new chunk.
        known: dict[str, FlowRun] = {}
        if looking_back:
            known = yield from _told(already_there(deployment, chunk.runs, _patience(submission)), submission, parking)
            looking_back = bool(known)
        if base is None:
            base = yield from _told(_base(deployment, moment.now, submission), submission, parking)
        parked = yield from _park_all(deployment, chunk.runs, known, base, submission, parking)
        parking.parked += parked
        # Another process may be parking the same submission, from a base of its own: stand behind what it parked.
        base = max(base, *(run.parked_time - PARK_DELAY - run.position * SPACING for run in parked))
        submission.on_parked(parked)
        following = _Chunk([], chunk.bad) if chunk.bad else _next_chunk(rows, preparer, len(parking.parked))
        moment = yield Sleep(0)
        if not following.runs or moment.elapsed_seconds - filled_at > FILL_EVERY_SECONDS:
            yield from _fill_quietly(deployment.id, submission.promoted_timeout, parking)
            filled_at = moment.elapsed_seconds
        chunk = following
    if chunk.bad is None:
        _require_all_of_them(checked_count, len(parking.parked), submission.key)
    if chunk.bad is not None:
        raise _stopped(chunk.bad, len(parking.parked), submission.key) from chunk.bad


def _preparer(submission: Submission, deployment: DeploymentResponse) -> Preparer:
    return Preparer(deployment, submission.key, submission.version, most_parameter_bytes())


def _check_whole(submission: Submission, deployment: DeploymentResponse) -> int:
    """Check every row before anything is created, unless they come from a one-shot iterator; how many there are.

    Raises:
        InvalidRun: the first bad row.
    """
    if iter(submission.runs) is submission.runs:
        return 0
    preparer = _preparer(submission, deployment)
    count = 0
    for count, row in enumerate(submission.runs, start=1):
        preparer.prepare(row, count - 1)
    return count


def _require_all_of_them(checked_count: int, parked_count: int, submission_key: str) -> None:
    """Raise if fewer runs came to be parked than were checked.

    Raises:
        SubmissionIncomplete: what was given looks as if it could be iterated twice, and cannot.
    """
    if parked_count < checked_count:
        cause = (
            f"{checked_count} runs were checked, and only {parked_count} came when they were asked for again. What was "
            "given can be iterated only once, like a generator in a wrapper: pass a list, or iter() of it"
        )
        raise SubmissionIncomplete(parked_count, submission_key, cause, may_be_more=False)


def _patience(submission: Submission) -> Patience:
    return Patience(ATTEMPT_SECONDS, submission.stall_timeout.total_seconds())


def _told(steps: Steps[T], submission: Submission, parking: Parking) -> Steps[T]:
    """The same steps; a request of theirs that fails is told of with the prefix that is parked."""
    try:
        return (yield from steps)
    except RequestFailed as error:
        raise SubmissionIncomplete(len(parking.parked), submission.key, cause_of(error)) from error


def _park_all(
    deployment: DeploymentResponse,
    chunk: list[PreparedRun],
    known: dict[str, FlowRun],
    base: datetime,
    submission: Submission,
    parking: Parking,
) -> Steps[list[ParkedRun]]:
    """Park a chunk; what goes wrong is told of with the prefix that is parked, this chunk's own part included."""
    parked: dict[str, ParkedRun] = {}
    try:
        yield from park_chunk(deployment, chunk, known, base, submission.key, _patience(submission), parked)
    except RequestFailed as error:
        prefix = len(parking.parked) + _prefix(chunk, parked)
        raise SubmissionIncomplete(prefix, submission.key, cause_of(error)) from error
    except InvalidRun as error:
        raise _stopped(error, len(parking.parked) + _prefix(chunk, parked), submission.key) from error
    return [parked[run.key] for run in chunk]


@dataclass
class _Chunk:
    """Rows that are good, and what came behind them if that was not."""

    runs: list[PreparedRun]
    bad: Exception | None


def _next_chunk(rows: Iterator[object], preparer: Preparer, start: int) -> _Chunk:
    """The next rows, checked; up to the first bad one, whether the check or the iterator itself finds it bad."""
    runs: list[PreparedRun] = []
    try:
        for position, row in enumerate(islice(rows, _calls.CHUNK), start):
            runs.append(preparer.prepare(row, position))
    except Exception as error:
        return _Chunk(runs, error)
    return _Chunk(runs, None)


def _stopped(bad: Exception, parked_count: int, submission_key: str) -> OrderedQueueError:
    """The error for a submission that stopped at a bad row or in the caller's own iterator."""
    if isinstance(bad, InvalidRun):
        return InvalidRun(bad.position, bad.reason, parked_count, bad.advice)
    cause = shortened(f"the iterator of runs raised {type(bad).__name__}: {bad}")
    return SubmissionIncomplete(parked_count, submission_key, cause, may_be_more=False)


def _prefix(chunk: list[PreparedRun], parked: dict[str, ParkedRun]) -> int:
    """How many of the chunk's runs, counted from its first, are parked for certain."""
    for count, run in enumerate(chunk):
        if run.key not in parked:
            return count
    return len(chunk)


def _base(deployment: DeploymentResponse, now: datetime, submission: Submission) -> Steps[datetime]:
    """What the parked times of the submission count from: behind the end of the queue."""
    # A tail that lies nearer than what is parked now would move nothing, see `submission_base`.
    call = _calls.queue_tail(deployment.id, now + PARK_DELAY - SPACING, now + FARTHEST_TAIL)
    tail = yield from ask_for_runs(call, _patience(submission))
    return submission_base(now, tail[0].expected_start_time if tail else None, submission.jitter)


def _fill_quietly(deployment_id: UUID, promoted_timeout: timedelta, parking: Parking) -> Steps[None]:
    """Fill; the submission stands whatever comes of it."""
    filled = Filled()
    try:
        yield from fill_whole(deployment_id, promoted_timeout, filled)
    except OrderedQueueError as error:
        filled.notes.append(f"could not fill the queue ({cause_of(error)}); the next run to end or sweep will")
    parking.notes += [note for note in filled.notes if note not in parking.notes]

"""The public calls, each in an async and a sync form over the same steps."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import PrefectClient, SyncPrefectClient, get_client
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue._drive import drive, drive_sync
from ordered_queue._fills import promote_next, sweep_queues
from ordered_queue._reports import logger, never_raising, report_fill, report_sweep
from ordered_queue._steps import park as _park
from ordered_queue._steps import sweep as _sweep
from ordered_queue._steps.fill import Filled, fill
from ordered_queue._version import __version__
from ordered_queue.errors import cause_of
from ordered_queue.runs import ParkedRun, QueueSwept, RunRequest
from ordered_queue.settings import load_settings

Deployment = str | UUID | DeploymentResponse
Runs = Iterable[Mapping[str, Any] | RunRequest]


def _ignore(parked: Sequence[ParkedRun]) -> None:
    """The default of `on_parked`."""


async def fill_free_slots(client: PrefectClient, deployment_id: UUID, exclude_flow_run_id: UUID | None = None) -> int:
    """Promote as many waiting runs of a deployment as it has free slots, earliest first.

    Called twice it promotes nothing more; called by several at once no run is promoted twice and no slot is promised
    twice. At most 100 runs are promoted by one call, in at most 10 s.

    Args:
        client: Prefect's client.
        deployment_id: whose queue.
        exclude_flow_run_id: a run that is handing its slot over and does not count as occupying.

    Returns:
        how many runs were promoted. Never raises: what went wrong is logged once, with what will repair it.
    """
    return len(await promote_next(client, deployment_id, exclude_flow_run_id))


def fill_free_slots_sync(
    client: SyncPrefectClient, deployment_id: UUID, exclude_flow_run_id: UUID | None = None
) -> int:
    """Promote as many waiting runs of a deployment as it has free slots, earliest first.

    Called twice it promotes nothing more; called by several at once no run is promoted twice and no slot is promised
    twice. At most 100 runs are promoted by one call, in at most 10 s.

    Args:
        client: Prefect's client.
        deployment_id: whose queue.
        exclude_flow_run_id: a run that is handing its slot over and does not count as occupying.

    Returns:
        how many runs were promoted. Never raises: what went wrong is logged once, with what will repair it.
    """
    filled = Filled()
    with never_raising(deployment_id):
        drive_sync(client, fill(deployment_id, exclude_flow_run_id, load_settings().promoted_timeout, filled))
    return report_fill(deployment_id, filled)


async def park(
    deployment: Deployment,
    runs: Runs,
    *,
    submission_key: str | None = None,
    client: PrefectClient | None = None,
    on_parked: Callable[[Sequence[ParkedRun]], object] = _ignore,
) -> list[ParkedRun]:
    """Park runs behind what waits, in order, each read back from the server; then promote what has a slot.

    Args:
        deployment: "flow/deployment", an id, or a deployment object.
        runs: mappings of parameters, or `RunRequest`s. A list (anything that can be iterated twice) is checked as a
            whole before a run is created. A one-shot iterator is read in chunks of 100 as it is parked, and never held
            in memory.
        submission_key: repeating a call with the same key adds nothing twice and parks what is missing. It is for one
            submission, for ever; another list takes another key. None makes one up.
        client: Prefect's client; None opens one.
        on_parked: called with the runs of each chunk once they are parked, in order; to show progress, say.

    Returns:
        one `ParkedRun` for each run, in order. At once: it does not wait for any run to start.

    Raises:
        DeploymentNotFound: with the nearest names.
        DeploymentRefused: its collision strategy is CANCEL_NEW.
        InvalidRun: which row is wrong, and why; also one whose key another run has, with other parameters.
        SubmissionIncomplete: how long a prefix is parked for certain, and the key to park the rest with.
        InvalidSetting, RequestFailed, ServerTooOld: nothing was parked.
    """
    submission = _submission(deployment, runs, submission_key, on_parked)
    parking = _park.Parking()
    async with _opened(client) as opened:
        await drive(opened, _park.park(submission, parking))
    return _reported(submission, parking)


def park_sync(
    deployment: Deployment,
    runs: Runs,
    *,
    submission_key: str | None = None,
    client: SyncPrefectClient | None = None,
    on_parked: Callable[[Sequence[ParkedRun]], object] = _ignore,
) -> list[ParkedRun]:
    """Park runs behind what waits, in order, each read back from the server; then promote what has a slot.

    Args:
        deployment: "flow/deployment", an id, or a deployment object.
        runs: mappings of parameters, or `RunRequest`s. A list (anything that can be iterated twice) is checked as a
            whole before a run is created. A one-shot iterator is read in chunks of 100 as it is parked, and never held
            in memory.
        submission_key: repeating a call with the same key adds nothing twice and parks what is missing. It is for one
            submission, for ever; another list takes another key. None makes one up.
        client: Prefect's client; None opens one.
        on_parked: called with the runs of each chunk once they are parked, in order; to show progress, say.

    Returns:
        one `ParkedRun` for each run, in order. At once: it does not wait for any run to start.

    Raises:
        DeploymentNotFound: with the nearest names.
        DeploymentRefused: its collision strategy is CANCEL_NEW.
        InvalidRun: which row is wrong, and why; also one whose key another run has, with other parameters.
        SubmissionIncomplete: how long a prefix is parked for certain, and the key to park the rest with.
        InvalidSetting, RequestFailed, ServerTooOld: nothing was parked.
    """
    submission = _submission(deployment, runs, submission_key, on_parked)
    parking = _park.Parking()
    with _opened_sync(client) as opened:
        drive_sync(opened, _park.park(submission, parking))
    return _reported(submission, parking)


async def sweep(client: PrefectClient, deployment_id: UUID | None = None) -> list[QueueSwept]:
    """Fill every queue in which a run waits, or one.

    Called twice it promotes nothing more.

    Args:
        client: Prefect's client.
        deployment_id: whose queue; None is every queue.

    Returns:
        what was done, queue by queue. Never raises: a queue that could not be filled says so in its `problem`; a list
        of queues that could not be read is logged.
    """
    return await sweep_queues(client, deployment_id)


def sweep_sync(client: SyncPrefectClient, deployment_id: UUID | None = None) -> list[QueueSwept]:
    """Fill every queue in which a run waits, or one.

    Called twice it promotes nothing more.

    Args:
        client: Prefect's client.
        deployment_id: whose queue; None is every queue.

    Returns:
        what was done, queue by queue. Never raises: a queue that could not be filled says so in its `problem`; a list
        of queues that could not be read is logged.
    """
    swept: list[QueueSwept] = []
    try:
        drive_sync(client, _sweep.sweep(deployment_id, load_settings().promoted_timeout, swept))
    except Exception as error:
        swept.append(QueueSwept(deployment_id, 0, cause_of(error)))
    return report_sweep(swept)


def _submission(
    deployment: Deployment, runs: Runs, submission_key: str | None, on_parked: Callable[[Sequence[ParkedRun]], object]
) -> _park.Submission:
    if isinstance(runs, str | bytes | Mapping):
        raise TypeError(
            f"runs is one {type(cast('object', runs)).__name__}; pass a list of mappings, one for each run."
        )
    settings = load_settings()
    return _park.Submission(
        deployment=deployment,
        runs=runs,
        key=submission_key if submission_key is not None else str(uuid.uuid4()),
        version=__version__,
        jitter=timedelta(microseconds=random.randrange(1000)),
        stall_timeout=settings.stall_timeout,
        promoted_timeout=settings.promoted_timeout,
        on_parked=on_parked,
    )


def _reported(submission: _park.Submission, parking: _park.Parking) -> list[ParkedRun]:
    name = getattr(submission.deployment, "name", submission.deployment)
    for note in parking.notes:
        logger.warning("Queue of deployment %s: %s.", name, note)
    return parking.parked


@asynccontextmanager
async def _opened(client: PrefectClient | None) -> AsyncGenerator[PrefectClient, None]:
    """The caller's client as it is, or one of our own for as long as it is needed."""
    if client is not None:
        yield client
    else:
        async with get_client() as own:
            yield own


@contextmanager
def _opened_sync(client: SyncPrefectClient | None) -> Generator[SyncPrefectClient, None, None]:
    """The caller's client as it is, or one of our own for as long as it is needed."""
    if client is not None:
        yield client
    else:
        with get_client(sync_client=True) as own:
            yield own

"""`ordered-queue sweep`, `cancel` and `unpark`: what changes a queue."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from prefect.client.orchestration import SyncPrefectClient

from ordered_queue._drive import drive_sync
from ordered_queue._steps import queue as _queue
from ordered_queue._steps import sweep as _sweep
from ordered_queue._steps.deployments import find_deployment
from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import CommandFailed, Misused, in_one_line, printable
from ordered_queue.cli.names import full_names
from ordered_queue.cli.so_far import counted, telling_how_far
from ordered_queue.cli.terminal import is_confirmed, put, say
from ordered_queue.runs import QueueSwept
from ordered_queue.settings import load_settings
from ordered_queue.submission import is_cancel_new

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")]


def sweep(deployment: str | None = None, /) -> int:
    """Fill every queue in which a run waits, or one.

    Prints one line a queue. The exit code is 1 if one could not be filled.

    Args:
        deployment: "flow/deployment", or an id; every queue if left out.
    """
    with connected() as client:
        deployment_id = None if deployment is None else _id_of(client, deployment)
        swept = _swept(client, deployment_id)
        found = drive_sync(client, full_names([queue.deployment_id for queue in swept if queue.deployment_id]))
    names = {str(found_id): name for found_id, name in found.items()}
    for queue in swept:
        name = printable(names.get(str(queue.deployment_id), str(queue.deployment_id)))
        problem = "" if queue.problem is None else f"; could not fill it: {in_one_line(queue.problem)}"
        put(f"{name}: promoted {queue.promoted}{problem}")
        for note in queue.notes:
            say(in_one_line(f"Note on {name}: {note}."))
    if not swept:
        say("No run waits in any queue.")
    return 1 if any(queue.problem is not None for queue in swept) else 0


def cancel(deployment: str | None = None, /, *, submission: str, yes: Yes = False) -> None:
    """Cancel the runs of a submission that have not started; what runs already goes on.

    Asks first on a terminal. Afterwards fills the slots that this freed.

    Args:
        deployment: "flow/deployment", or an id, to look in this queue only; every queue if left out.
        submission: The submission's key, as `ordered-queue park` told it. `ordered-queue ls --json` shows it, and
            `ordered-queue ls` does on a terminal of 150 columns or more.
        yes: Do not ask.
    """
    if not submission.strip():
        raise Misused("The submission key is empty. `ordered-queue ls DEPLOYMENT --json` shows what there is.")
    cancelled: list[UUID] = []
    with connected() as client:
        deployment_id = None if deployment is None else _id_of(client, deployment)
        if not is_confirmed(f"Cancel the runs of submission {printable(submission)} that have not started?", yes):
            raise CommandFailed("Not confirmed; nothing was cancelled.")
        with telling_how_far(cancelled, "Cancelled {}"):
            drive_sync(client, _queue.cancel_submission(submission, deployment_id, cancelled))
        put(f"Cancelled {counted(cancelled)}.")
        if cancelled:
            # One of them may have been promoted: its slot is free now, and no hook runs for it.
            _tell_problems(_swept(client, deployment_id))
        else:
            say(
                "No run of that submission waits to start: all of it has started, or no submission has that key. "
                "`ordered-queue ls DEPLOYMENT` shows what waits."
            )


def unpark(deployment: str, /, *, yes: Yes = False) -> None:
    """Hand every waiting run of a deployment back to Prefect: due now, and no longer in the queue.

    Asks first on a terminal.

    Args:
        deployment: "flow/deployment", or an id.
        yes: Do not ask.
    """
    unparked: list[UUID] = []
    with connected() as client:
        found, _ = drive_sync(client, find_deployment(deployment))
        if is_cancel_new(found):
            say(
                f"The collision strategy of {printable(deployment)} is CANCEL_NEW: Prefect will cancel each of these "
                "runs that finds no slot. To keep them, deploy it with collision_strategy ENQUEUE first."
            )
        question = f"Hand every waiting run of {printable(deployment)} back to Prefect? It keeps no order."
        if not is_confirmed(question, yes):
            raise CommandFailed("Not confirmed; nothing was changed.")
        with telling_how_far(unparked, "Handed {} back"):
            drive_sync(client, _queue.unpark(found.id, unparked))
    put(f"Handed {counted(unparked)} back to Prefect.")


def _id_of(client: SyncPrefectClient, deployment: str) -> UUID:
    found, _ = drive_sync(client, find_deployment(deployment))
    return found.id


def _swept(client: SyncPrefectClient, deployment_id: UUID | None) -> list[QueueSwept]:
    """Sweep by the steps themselves: `sweep_sync` never raises, so it could not tell "no queues" from "no answer"."""
    swept: list[QueueSwept] = []
    drive_sync(client, _sweep.sweep(deployment_id, load_settings().promoted_timeout, swept))
    return swept


def _tell_problems(swept: list[QueueSwept]) -> None:
    for queue in swept:
        if queue.problem is not None:
            say(in_one_line(f"Could not fill the queue of deployment {queue.deployment_id}: {queue.problem}."))

"""`ordered-queue adopt`: the way in for a deployment that has a backlog of Prefect's own."""

from __future__ import annotations

from uuid import UUID

from ordered_queue._drive import drive_sync
from ordered_queue._steps import adopt as _adopt
from ordered_queue._steps import sweep as _sweep
from ordered_queue._steps.deployments import find_deployment
from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import CommandFailed, in_one_line, printable
from ordered_queue.cli.queue import Yes
from ordered_queue.cli.so_far import counted, telling_how_far
from ordered_queue.cli.terminal import is_confirmed, put, say
from ordered_queue.runs import QueueSwept
from ordered_queue.settings import load_settings


def adopt(deployment: str, /, *, yes: Yes = False) -> None:
    """Take the runs that wait for a slot in Prefect's own way into the queue, in the order of their creation.

    These are runs named AwaitingConcurrencySlot, and runs that are due. Each gets the queue's tag and keeps its state;
    whatever is parked from now on comes behind them. Asks first on a terminal, and fills the queue afterwards.

    Args:
        deployment: "flow/deployment", or an id.
        yes: Do not ask.
    """
    adopted: list[UUID] = []
    with connected() as client:
        found, _ = drive_sync(client, find_deployment(deployment))
        if not is_confirmed(f"Take the runs of {printable(deployment)} that wait for a slot into the queue?", yes):
            raise CommandFailed("Not confirmed; nothing was changed.")
        with telling_how_far(adopted, "Adopted {}"):
            drive_sync(client, _adopt.adopt(found.id, adopted))
        swept: list[QueueSwept] = []
        drive_sync(client, _sweep.sweep(found.id, load_settings().promoted_timeout, swept))
    put(f"Adopted {counted(adopted)}.")
    for queue in swept:
        if queue.problem is not None:
            say(in_one_line(f"Could not fill the queue: {queue.problem}."))

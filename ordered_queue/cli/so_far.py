"""How far a command came that changes runs one by one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from uuid import UUID

from ordered_queue.cli.terminal import say
from ordered_queue.errors import OrderedQueueError


def counted(run_ids: Sequence[UUID]) -> str:
    """So many runs, in words."""
    return f"{len(run_ids)} run" if len(run_ids) == 1 else f"{len(run_ids)} runs"


@contextmanager
def telling_how_far(done: Sequence[UUID], told: str) -> Generator[None, None, None]:
    """Say what the block did of its work if it fails in the middle, and that repeating the command goes on.

    Args:
        done: the runs, as the block comes to them.
        told: what it did, with ``{}`` in the place of how many runs.
    """
    try:
        yield
    except (OrderedQueueError, KeyboardInterrupt):
        if done:
            say(f"{told.format(counted(done))} so far; repeat the command for the rest.")
        raise

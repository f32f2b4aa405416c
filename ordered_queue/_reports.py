"""What is logged, through Prefect's logger: what kept a queue from being filled, and what will repair it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from prefect.logging import get_logger

from ordered_queue._secrets import without_secrets
from ordered_queue._steps.fill import Filled
from ordered_queue.errors import cause_of
from ordered_queue.runs import QueueSwept

logger = get_logger("ordered_queue")

REPAIR = (
    "The next run of it to end, the nightly refresh or `ordered-queue sweep` will fill the queue; failing all of "
    "them, each run starts by itself at its parked time."
)


@contextmanager
def never_raising(deployment_id: UUID | None) -> Generator[None, None, None]:
    """Log what goes wrong inside, once, instead of raising it."""
    try:
        yield
    except Exception as error:
        log_failure(deployment_id, error)


def log_failure(deployment_id: UUID | None, error: Exception) -> None:
    """Log once what kept a queue from being filled, and what will repair it."""
    _log_problem(deployment_id, cause_of(error))


def _log_problem(deployment_id: UUID | None, problem: str) -> None:
    whose = "the queues" if deployment_id is None else f"the queue of deployment {deployment_id}"
    logger.warning("Could not fill %s: %s. %s", whose, without_secrets(problem), REPAIR)


def report_fill(deployment_id: UUID, filled: Filled) -> int:
    """Log what an operator should know of a fill; return how many runs it promoted."""
    for note in filled.notes:
        logger.warning("Queue of deployment %s: %s.", deployment_id, note)
    return len(filled.promoted)


def report_sweep(swept: list[QueueSwept]) -> list[QueueSwept]:
    """Log what an operator should know of a sweep; return it."""
    for queue in swept:
        for note in queue.notes:
            logger.warning("Queue of deployment %s: %s.", queue.deployment_id, note)
        if queue.problem is not None:
            _log_problem(queue.deployment_id, queue.problem)
    return swept

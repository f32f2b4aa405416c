"""Serve deployments in order: Prefect's ``serve``, with a sweep before the first poll (start-up recovery)."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import TerminationSignal
from prefect.runner import Runner

from ordered_queue._reports import logger
from ordered_queue.api import sweep


def serve(
    *deployments: RunnerDeployment, pause_on_shutdown: bool = True, limit: int | None = None, **runner_options: Any
) -> None:
    """Register the deployments, fill their queues, then poll for runs until stopped.

    Filling first matters after a stop: runs that ended meanwhile, or died with the runner, promoted nobody.

    Args:
        deployments: from ``flow.to_deployment(...)``, best with a ``concurrency_limit``.
        pause_on_shutdown: pause the deployments' schedules on shutdown, as Prefect does.
        limit: the most processes at once; leave it out, or above the sum of the concurrency limits.
        runner_options: passed to ``prefect.runner.Runner``, such as ``query_seconds`` (seconds between polls).

    Raises:
        ValueError: no deployment was given.
    """
    if not deployments:
        raise ValueError("There is nothing to serve: pass at least one deployment, from flow.to_deployment(...).")
    try:
        asyncio.run(_serve(deployments, pause_on_shutdown, limit, runner_options))
    except (KeyboardInterrupt, TerminationSignal) as stop:
        logger.info("Received %s, shutting down.", type(stop).__name__)


async def _serve(
    deployments: tuple[RunnerDeployment, ...], pause_on_shutdown: bool, limit: int | None, options: dict[str, Any]
) -> None:
    runner = Runner(pause_on_shutdown=pause_on_shutdown, limit=limit, **options)
    deployment_ids = [await runner.aadd_deployment(deployment) for deployment in deployments]
    await recover(deployment_ids)
    await runner.start()


async def recover(deployment_ids: list[UUID]) -> None:
    """Fill the queues of the deployments, and say what was found."""
    async with get_client() as client:
        swept = [queue for deployment_id in deployment_ids for queue in await sweep(client, deployment_id)]
    promoted = sum(queue.promoted for queue in swept)
    failed = sum(queue.problem is not None for queue in swept)
    ending = f", {failed} could not be filled" if failed else ""
    logger.info("Start-up recovery: %d run(s) promoted in %d queue(s)%s.", promoted, len(swept), ending)

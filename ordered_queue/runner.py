"""Serve deployments in order: Prefect's ``serve``, with start-up recovery and the quick poll."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import TerminationSignal
from prefect.runner import Runner

from ordered_queue._events import AT_ONCE_AND_AGAIN, DEPLOYMENT
from ordered_queue._prefect_runner import poll_now
from ordered_queue._quick_poll import Poller, QuickPoll, recover
from ordered_queue._reports import logger
from ordered_queue.api import sweep
from ordered_queue.runs import QueueSwept


def serve(
    *deployments: RunnerDeployment, pause_on_shutdown: bool = True, limit: int | None = None, **runner_options: Any
) -> None:
    """Register the deployments, fill their queues, then poll for runs until stopped.

    Filling first matters after a stop: runs that ended meanwhile, or died with the runner, promoted nobody. While it
    runs it follows Prefect's events: it fills the queue of a run that ends, and polls at once after a promotion.

    Args:
        deployments: from ``flow.to_deployment(...)``, best with a ``concurrency_limit``.
        pause_on_shutdown: pause the deployments' schedules on shutdown, as Prefect does.
        limit: the most processes at once; leave it out, or above the sum of the concurrency limits.
        runner_options: passed to ``prefect.runner.Runner``, such as ``query_seconds`` (seconds between polls where no
            event tells of a promotion).

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
    poller = poller_of(runner, [await runner.aadd_deployment(deployment) for deployment in deployments])
    await recover(poller.sweep)
    quick_poll = QuickPoll(poller)
    quick_poll.start()
    try:
        await runner.start()
    finally:
        await quick_poll.stop()


def poller_of(runner: Runner, deployment_ids: list[UUID]) -> Poller:
    """The runner as the quick poll sees it."""

    async def poll() -> list[UUID]:
        await poll_now(runner)
        return []

    async def resources() -> list[str]:
        return [f"{DEPLOYMENT}{deployment_id}" for deployment_id in deployment_ids]

    async def sweep_served(client: PrefectClient) -> list[QueueSwept]:
        return [queue for deployment_id in deployment_ids for queue in await sweep(client, deployment_id)]

    return Poller("Runner", poll, resources, lambda _: AT_ONCE_AND_AGAIN, sweep_served)

"""Serve deployments in order: Prefect's ``serve``, with start-up recovery and the quick poll."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
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
    *deployments: RunnerDeployment,
    pause_on_shutdown: bool = True,
    print_starting_message: bool = True,
    limit: int | None = None,
    **runner_options: Any,
) -> None:
    """Register the deployments, fill their queues, then poll for runs until stopped.

    Filling first matters after a stop: runs that ended meanwhile, or died with the runner, promoted nobody. While it
    runs it follows Prefect's events: it fills the queue of a run that ends, and polls at once after a promotion.

    Args:
        deployments: from ``flow.to_deployment(...)``, best with a ``concurrency_limit``. A work pool that one names is
            ignored with a warning, as Prefect does.
        pause_on_shutdown: pause the deployments' schedules on shutdown, as Prefect does.
        print_starting_message: say on standard output what is served, and how to park runs of it.
        limit: the most processes at once; leave it out, or above the sum of the concurrency limits.
        runner_options: passed to ``prefect.runner.Runner``, such as ``query_seconds`` (seconds between polls where no
            event tells of a promotion).

    Raises:
        ValueError: no deployment was given.
    """
    if not deployments:
        raise ValueError("There is nothing to serve: pass at least one deployment, from flow.to_deployment(...).")
    options = {"pause_on_shutdown": pause_on_shutdown, "limit": limit, **runner_options}
    try:
        asyncio.run(_serve(deployments, print_starting_message, options))
    except (KeyboardInterrupt, TerminationSignal) as stop:
        logger.info("Received %s, shutting down.", type(stop).__name__)


async def _serve(
    deployments: tuple[RunnerDeployment, ...], print_starting_message: bool, options: dict[str, Any]
) -> None:
    runner = Runner(**options)
    for deployment in deployments:
        _forget_work_pool(deployment)
    poller = poller_of(runner, [await runner.aadd_deployment(deployment) for deployment in deployments])
    await recover(poller.sweep)
    if print_starting_message:
        _say_what_is_served(deployments)
    quick_poll = QuickPoll(poller)
    quick_poll.start()
    try:
        await runner.start()
    finally:
        await quick_poll.stop()


def _forget_work_pool(deployment: RunnerDeployment) -> None:
    """Let the deployment's runs come to us. Source: ``prefect.serve``, which does the same."""
    if deployment.work_pool_name:
        warnings.warn(
            f"Served deployments need no work pool: {deployment.work_pool_name!r} is ignored. Leave `work_pool_name` "
            f"out of `to_deployment` for {deployment.name!r}.",
            UserWarning,
            stacklevel=2,
        )
        deployment.work_pool_name = None


def _say_what_is_served(deployments: tuple[RunnerDeployment, ...]) -> None:
    names = "".join(f"  {deployment.flow_name}/{deployment.name}\n" for deployment in deployments)
    message = f"Serving in order:\n{names}Park runs with: ordered-queue park DEPLOYMENT --param NAME=VALUE"
    # Served all the same where the output is closed, or its encoding lacks a letter of a name.
    with suppress(OSError, ValueError):
        print(message, flush=True)  # noqa: T201  # for whoever started it, as Prefect's own


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

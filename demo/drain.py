"""Watching the queue until it is empty."""

from __future__ import annotations

import time
from datetime import datetime, timezone

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun
from rich.console import Console

from demo.serving import Serving
from demo.view import picture, shown
from ordered_queue.testing import in_submission_order

DRAIN_SECONDS = 180.0
"""After this the demo gives up waiting; the verdict then says which runs did not complete."""

LOOK_AGAIN_SECONDS = 0.5


def drain(client: SyncPrefectClient, serving: Serving, expected: int, console: Console) -> list[FlowRun]:
    """Show the queue while it drains.

    Returns:
        every run, in submission order, once `expected` runs have ended or `DRAIN_SECONDS` are over.

    Raises:
        DemoFailed: the serving process ended.
    """
    deadline = time.monotonic() + DRAIN_SECONDS
    with shown(console, serving) as show:
        while True:
            serving.ensure_alive()
            runs = _read_runs(client, serving)
            show(picture(runs, serving.limit, datetime.now(timezone.utc)))
            ended = [run for run in runs if run.state is not None and run.state.is_final()]
            if len(ended) >= expected or time.monotonic() > deadline:
                return runs
            time.sleep(LOOK_AGAIN_SECONDS)


def _read_runs(client: SyncPrefectClient, serving: Serving) -> list[FlowRun]:
    only_ours = DeploymentFilter(id=DeploymentFilterId(any_=[serving.deployment_id]))
    return in_submission_order(client.read_flow_runs(deployment_filter=only_ours, limit=200))

"""A fill and a sweep with an async client, as the public calls and our own pollers need them. Neither raises."""

from __future__ import annotations

from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient

from ordered_queue._drive import drive
from ordered_queue._reports import never_raising, report_fill, report_sweep
from ordered_queue._steps import sweep as _sweep
from ordered_queue._steps.fill import Filled, fill
from ordered_queue.errors import cause_of
from ordered_queue.runs import QueueSwept
from ordered_queue.settings import load_settings

WHOLE_FILL_SECONDS = 9.5
"""After this a fill is cut off whatever it is doing, so that a flow's end is delayed by less than 10 s."""


async def promote_next(
    client: PrefectClient, deployment_id: UUID, exclude_flow_run_id: UUID | None = None
) -> list[UUID]:
    """Fill a queue; the runs promoted, in order. What went wrong is logged."""
    filled = Filled()
    with never_raising(deployment_id):
        with anyio.fail_after(WHOLE_FILL_SECONDS):
            steps = fill(deployment_id, exclude_flow_run_id, load_settings().promoted_timeout, filled)
            await drive(client, steps)
    report_fill(deployment_id, filled)
    return filled.promoted


async def sweep_queues(
    client: PrefectClient, deployment_id: UUID | None = None, work_pool_name: str | None = None
) -> list[QueueSwept]:
    """Fill one queue, those of a work pool, or all. What went wrong is logged, and in the `problem` of a queue."""
    swept: list[QueueSwept] = []
    try:
        await drive(client, _sweep.sweep(deployment_id, load_settings().promoted_timeout, swept, work_pool_name))
    except Exception as error:
        swept.append(QueueSwept(deployment_id, 0, cause_of(error)))
    return report_sweep(swept)

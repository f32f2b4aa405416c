"""A process worker that keeps the slots of queued deployments busy; worker type ``ordered-process``.

Prefect finds it through the entry point group ``prefect.collections``, wherever this package is installed::

    prefect work-pool create my-pool --type ordered-process
    prefect worker start --pool my-pool

Deployments that are not queued run in it as they do in Prefect's own process worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc
from prefect.client.orchestration import PrefectClient
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from ordered_queue._events import AT_ONCE, SECOND_LOOK_SECONDS
from ordered_queue._fills import sweep_queues
from ordered_queue._quick_poll import Poller, QuickPoll, recover
from ordered_queue.runs import QueueSwept

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

RECOVERY_SECONDS = 10.0
"""How long start-up recovery may keep the worker from its first poll; the sweep is made again once events arrive."""

NOT_YET_SECONDS = 0.5

LATER = (SECOND_LOOK_SECONDS,)
"""When to look after the end of a run that is not ours: whoever runs it fills at once."""


class OrderedProcessWorker(ProcessWorker):
    """Prefect's process worker, which also fills the queue of a run that ends and polls at once after a promotion.

    At its start it fills the queues of its work pool. Several of them on one work pool are harmless: Prefect gives a
    run to one of them only. Without an event stream it polls as usual.
    """

    type = "ordered-process"

    _display_name = "Process, in order"
    _description = (
        "Execute flow runs as subprocesses on a worker, and keep the slots of deployments that are queued with "
        "ordered_queue busy: the next run starts when a slot frees."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._one_poll_at_a_time = asyncio.Lock()
        self._is_polling_on = False
        self._our_runs: set[UUID] = set()
        self._quick_poll: QuickPoll | None = None

    async def start(
        self, run_once: bool = False, with_healthcheck: bool = False, printer: Callable[..., None] = print
    ) -> None:
        """Run until stopped, or poll once and end."""
        # With `run_once`, and in an `async with` of a user's own, nobody asked for more polls.
        self._is_polling_on = not run_once
        await super().start(run_once=run_once, with_healthcheck=with_healthcheck, printer=printer)

    async def setup(self) -> None:
        """Prepare the worker, and fill the queues of its work pool."""
        await super().setup()
        if self._knows_work_pool():
            with anyio.move_on_after(RECOVERY_SECONDS):
                await recover(self._sweep)
        poller = Poller("Worker", self._poll, self._resources, self._looks_after, self._sweep)
        self._quick_poll = QuickPoll(poller)
        if self._is_polling_on:
            self._quick_poll.start()

    async def teardown(self, *exc_info: Any) -> None:
        """End the quick poll, then the worker."""
        if self._quick_poll is not None:
            await self._quick_poll.stop()
        await super().teardown(*exc_info)

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Poll. Prefect's loop and ours do not overlap: an answer that is no longer true submits nothing."""
        async with self._one_poll_at_a_time:
            return await super().get_and_submit_flow_runs()

    async def run(
        self,
        flow_run: FlowRun,
        configuration: ProcessJobConfiguration,
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> ProcessWorkerResult:
        """Run a flow run in a process, and fill its queue when that has ended, however it ended.

        How the process is started is all in the call of `super`: another way of starting it goes there.
        """
        self._our_runs.add(flow_run.id)
        is_final = False
        try:
            result = await super().run(flow_run, configuration, task_status)
            # After anything else Prefect's worker proposes Crashed once we have returned.
            is_final = result.status_code == 0
            return result
        finally:
            self._our_runs.discard(flow_run.id)
            if flow_run.deployment_id is not None and self._quick_poll is not None:
                self._quick_poll.process_ended(flow_run.deployment_id, is_final=is_final)

    def _looks_after(self, flow_run_id: UUID | None) -> Sequence[float]:
        # Of a run of ours we look again when its process has ended.
        return AT_ONCE if flow_run_id in self._our_runs else LATER

    async def _poll(self) -> set[UUID]:
        return {run.id for run in await self.get_and_submit_flow_runs()}

    async def _sweep(self, client: PrefectClient) -> list[QueueSwept]:
        return await sweep_queues(client, work_pool_name=self.work_pool.name)

    async def _resources(self) -> list[str]:
        while True:
            if self._knows_work_pool():
                return [f"prefect.work-pool.{self.work_pool.id}"]
            await anyio.sleep(NOT_YET_SECONDS)

    def _knows_work_pool(self) -> bool:
        try:
            return bool(self.work_pool.id)
        except RuntimeError:  # not before its first contact with the server
            return False

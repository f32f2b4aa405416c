"""The quick poll: what a poller (our worker, our runner) does beside its own loop so that no slot idles.

    a run of it ended (event, or the end of its process) -> fill the queue -> promoted -> poll now
    a run was promoted, by whomever (event Late)         --------------------------------> poll now

A poll that finds nothing because the promotion is not committed yet is followed by a second one a second later. A
promoted run that somebody was seen to take is polled for no more. Many promotions at once become few polls, and the
polls of one poller never overlap.

All of it is extra: without an event stream the poller polls as often as it is set to, and fills as its processes end.
Nothing here raises into the poller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter
from prefect.events.schemas.events import Event

from ordered_queue._events import (
    AT_ONCE,
    AT_ONCE_AND_AGAIN,
    FLOW_RUN,
    Looks,
    News,
    fill_due,
    flow_run_of,
    follow,
    is_promotion,
    queue_of,
)
from ordered_queue._reports import logger
from ordered_queue._secrets import without_secrets
from ordered_queue.runs import QueueSwept

PAUSE_BETWEEN_POLLS_SECONDS = 0.1
"""The first poll after quiet is made at once; of a burst of promotions, ten polls a second are enough."""

START_AGAIN_SECONDS = 30.0
"""After something unforeseen; the poller's own loop goes on all the while."""

Sweeping = Callable[[PrefectClient], Awaitable[list[QueueSwept]]]


@dataclass(frozen=True)
class Poller:
    """What the quick poll has to know of a worker or a runner.

    Attributes:
        who: for the log.
        poll: ask for due runs now and start them; which of them it took, where it can tell.
        resources: the ids of the event resources (a work pool, deployments) whose runs it polls for; waits until they
            are known.
        looks_after: when to look at the queue of a run after an event of it, in seconds.
        sweep: fill the queues that it polls for.
    """

    who: str
    poll: Callable[[], Awaitable[Iterable[UUID]]]
    resources: Callable[[], Awaitable[list[str]]]
    looks_after: Callable[[UUID | None], Sequence[float]]
    sweep: Sweeping


async def recover(sweeping: Sweeping) -> None:
    """Start-up recovery: fill the queues, and say what was found. Never raises."""
    try:
        async with get_client() as client:
            swept = await sweeping(client)
    except Exception as error:
        logger.warning("Start-up recovery failed: %s.", without_secrets(str(error)))
        return
    failed = sum(queue.problem is not None for queue in swept)
    ending = f", {failed} could not be filled" if failed else ""
    promoted = sum(queue.promoted for queue in swept)
    logger.info("Start-up recovery: %d run(s) promoted in %d queue(s)%s.", promoted, len(swept), ending)


class QuickPoll:
    """Runs beside a poller, from `start` to `stop`."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._queues: Looks[UUID] = Looks()
        self._promoted: Looks[UUID] = Looks()
        # Promoted runs that nobody was seen to take yet, and those that we took before their event was here.
        self._not_taken: set[UUID] = set()
        self._taken: set[UUID] = set()
        self._sweep_wanted = News()
        self._is_connected = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. Needs a running event loop."""
        self._task = asyncio.create_task(self._run_for_ever(), name="ordered-queue-quick-poll")

    async def stop(self) -> None:
        """End, and wait for the end. Without a start, or twice, it does nothing."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def process_ended(self, deployment_id: UUID, *, is_final: bool) -> None:
        """The process of a run of ours has ended, and our poller has room again.

        Args:
            deployment_id: whose run it was.
            is_final: whether the run's final state is surely committed; if not, somebody is about to write it.
        """
        self._queues.name(deployment_id, AT_ONCE if is_final else AT_ONCE_AND_AGAIN)
        for flow_run_id in self._not_taken:
            self._promoted.name(flow_run_id, AT_ONCE)

    async def _run_for_ever(self) -> None:
        while True:
            try:
                async with get_client() as client, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._listen)
                    tasks.start_soon(self._fill, client)
                    tasks.start_soon(self._poll)
                    tasks.start_soon(self._sweep, client)
            except Exception:
                logger.exception("%s: the quick poll broke off; it polls as usual meanwhile.", self._poller.who)
            await anyio.sleep(START_AGAIN_SECONDS)

    async def _listen(self) -> None:
        resources = await self._poller.resources()
        events = EventFilter(
            event=EventNameFilter(prefix=[FLOW_RUN]), any_resource=EventAnyResourceFilter(id=resources)
        )
        await follow(events, self._take, connected=self._connected, who=self._poller.who, meanwhile="polling as usual")

    def _connected(self, is_connected: bool) -> None:
        self._is_connected = is_connected
        self._not_taken.clear()
        self._taken.clear()
        if is_connected:
            self._sweep_wanted.tell()

    def _take(self, event: Event) -> None:
        flow_run_id = flow_run_of(event)
        if is_promotion(event):
            if flow_run_id is not None and flow_run_id not in self._taken:
                self._not_taken.add(flow_run_id)
                self._promoted.name(flow_run_id)
            return
        if flow_run_id is not None:
            self._not_taken.discard(flow_run_id)
            self._taken.discard(flow_run_id)
        deployment_id = queue_of(event)
        if deployment_id is not None:
            self._queues.name(deployment_id, self._poller.looks_after(flow_run_id))

    async def _fill(self, client: PrefectClient) -> None:
        while True:
            async for _, promoted in fill_due(client, self._queues):
                self._we_promoted(promoted)

    def _we_promoted(self, flow_run_ids: Iterable[UUID]) -> None:
        for flow_run_id in flow_run_ids:
            self._not_taken.add(flow_run_id)
            self._promoted.name(flow_run_id, AT_ONCE)

    async def _poll(self) -> None:
        while True:
            if await self._promoted.due() & self._not_taken:
                await self._poll_once()
                await anyio.sleep(PAUSE_BETWEEN_POLLS_SECONDS)

    async def _poll_once(self) -> None:
        try:
            taken = set(await self._poller.poll())
        except Exception as error:
            problem = without_secrets(str(error))
            logger.warning("%s: a quick poll failed (%s); it polls as usual meanwhile.", self._poller.who, problem)
            return
        if self._is_connected:
            self._taken |= taken & self._not_taken
        self._not_taken -= taken

    async def _sweep(self, client: PrefectClient) -> None:
        while True:
            await self._sweep_wanted.wait()
            swept = await self._poller.sweep(client)
            promoted = sum(queue.promoted for queue in swept)
            if promoted:
                logger.info("%s: promoted %d run(s) in a sweep.", self._poller.who, promoted)

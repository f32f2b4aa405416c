"""Watch: follow Prefect's event stream, fill the queue that an event names, and sweep now and then.

What hooks miss (a process killed with its worker, a cancelled run, a changed limit, an outsider that ends) Prefect
still tells of as an event. One task listens, one fills what was named, one sweeps every so often. Events that come
while a fill is under way are put together: a thousand of them become few fills. A missed event costs at most the time
to the next sweep.

Prefect tells of a change before it commits it (its rules emit the event from within the transaction), so whoever acts
on an event at once may still read what was before. Each queue that an event names is therefore looked at twice: at
once, and again `SECOND_LOOK_SECONDS` later.

Several watchers at once are harmless: promotion is atomic.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.events.schemas.events import Event

from ordered_queue._reports import logger
from ordered_queue.api import fill_free_slots, sweep

SWEEP_SECONDS = 60.0
BEHIND = timedelta(seconds=10)
"""From which age of an event on the watcher says that it is behind."""

PAUSE_AFTER_NOTHING_SECONDS = 0.5
"""After a round that promoted nothing: a submission's own burst of events is worth few looks."""

SECOND_LOOK_SECONDS = 1.0
"""When a queue is looked at again after an event: the change that the event tells of is committed by then."""

LONGEST_RECONNECT_SECONDS = 30.0

HEARTBEAT_SECONDS = 5.0

FLOW_RUN = "prefect.flow-run."
DEPLOYMENT_UPDATED = "prefect.deployment.updated"
FREES_NOTHING = frozenset(
    FLOW_RUN + name
    for name in ("Pending", "Running", "Late", "Scheduled", "InfrastructurePending", "Submitting", "heartbeat")
)
"""Events after which no slot is free that was not free before. Any other, named by whomever, is worth a look."""


class News:
    """Something to wait for, that may happen again while it is being dealt with."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def tell(self) -> None:
        """There is news."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for news since the last wait."""
        await self._event.wait()
        self._event = anyio.Event()


@dataclass
class Watching:
    """What the tasks of a watcher share.

    Attributes:
        queues: deployments named by events and not filled since.
        queue_named: news of that.
        sweep_wanted: any queue may have changed.
        is_connected: whether events arrive.
        last_sweep: when the last sweep ended well, by the monotonic clock.
    """

    queues: set[UUID] = field(default_factory=set[UUID])
    queue_named: News = field(default_factory=News)
    sweep_wanted: News = field(default_factory=News)
    is_connected: bool = False
    last_sweep: float = field(default_factory=time.monotonic)


async def watch(*, sweep_seconds: float = SWEEP_SECONDS, health_file: Path | None = None) -> None:
    """Keep every queue filled until cancelled, or until SIGTERM or SIGINT arrive in the main thread.

    Args:
        sweep_seconds: how often to look at every queue, whatever the events say.
        health_file: written every 5 s while the watcher is well; a probe looks at its age. None writes none.

    Raises:
        ValueError: `sweep_seconds` is not positive.
    """
    if sweep_seconds <= 0:
        raise ValueError(f"sweep_seconds must be more than 0, this is {sweep_seconds}")
    watching = Watching()
    async with get_client() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
        tasks.start_soon(_listen, watching)
        tasks.start_soon(_fill_what_is_named, client, watching)
        tasks.start_soon(_sweep_now_and_then, client, watching, sweep_seconds)
        if health_file is not None:
            tasks.start_soon(_tell_health, watching, health_file, sweep_seconds)


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    # Signals reach the main thread only; elsewhere whoever runs us cancels us.
    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for received in signals:
                logger.info("Watcher: received %s, stopping.", received.name)
                scope.cancel()
                return


async def _listen(watching: Watching) -> None:
    """Note the queues that events name; connect again for ever, with back-off."""
    pause = 1.0
    while True:
        problem = "the server closed the event stream"
        try:
            names = EventNameFilter(prefix=[FLOW_RUN, DEPLOYMENT_UPDATED])
            async with get_events_subscriber(EventFilter(event=names), reconnection_attempts=0) as subscriber:
                logger.info("Watcher: following the event stream.")
                watching.is_connected, pause = True, 1.0
                # Nobody told us of what happened while we were away.
                watching.sweep_wanted.tell()
                tell_if_behind = lag_teller(datetime.now(timezone.utc))
                async for event in subscriber:
                    tell_if_behind(event.occurred)
                    deployment_id = queue_of(event)
                    if deployment_id is not None:
                        watching.queues.add(deployment_id)
                        watching.queue_named.tell()
        except Exception as error:
            problem = str(error) or type(error).__name__
        watching.is_connected = False
        logger.warning("Watcher: no events (%s); sweeping meanwhile, trying again in %.0f s.", problem, pause)
        await anyio.sleep(pause)
        pause = min(2 * pause, LONGEST_RECONNECT_SECONDS)


def queue_of(event: Event) -> UUID | None:
    """The deployment in whose queue the event may have freed a slot or brought a run; None if it cannot have."""
    if event.event in FREES_NOTHING:
        return None
    resources = [event.resource.id, *(related.id for related in event.related)]
    for resource_id in resources:
        if resource_id.startswith("prefect.deployment."):
            with contextlib.suppress(ValueError):
                return UUID(resource_id.removeprefix("prefect.deployment."))
    return None


def lag_teller(connected: datetime) -> Callable[[datetime], None]:
    """A function that says, once a minute at most, when events arrive late.

    Args:
        connected: since when events arrive. A new connection is given those of the minute before again: they are
            late, and we are not.
    """
    told_at = float("-inf")

    def tell_if_behind(occurred: datetime) -> None:
        nonlocal told_at
        lag = datetime.now(timezone.utc) - occurred
        if occurred > connected and lag > BEHIND and time.monotonic() - told_at > 60:
            told_at = time.monotonic()
            logger.warning("Watcher: %.0f s behind the event stream.", lag.total_seconds())

    return tell_if_behind


async def _fill_what_is_named(client: PrefectClient, watching: Watching) -> None:
    second_looks: dict[UUID, float] = {}
    while True:
        until_next = min(second_looks.values(), default=math.inf) - time.monotonic()
        with anyio.move_on_after(max(until_next, 0)):
            await watching.queue_named.wait()
        named, watching.queues = watching.queues, set()
        now = time.monotonic()
        due = {deployment_id for deployment_id, when in second_looks.items() if when <= now}
        promoted = 0
        for deployment_id in named | due:
            promoted += await fill_free_slots(client, deployment_id)
        for deployment_id in due:
            del second_looks[deployment_id]
        second_looks |= dict.fromkeys(named, time.monotonic() + SECOND_LOOK_SECONDS)
        if promoted:
            logger.info("Watcher: promoted %d run(s) after an event.", promoted)
        else:
            await anyio.sleep(PAUSE_AFTER_NOTHING_SECONDS)


async def _sweep_now_and_then(client: PrefectClient, watching: Watching, sweep_seconds: float) -> None:
    while True:
        swept = await sweep(client)
        promoted = sum(queue.promoted for queue in swept)
        if promoted:
            logger.info("Watcher: promoted %d run(s) in a sweep.", promoted)
        if all(queue.deployment_id is not None for queue in swept):
            watching.last_sweep = time.monotonic()
        with anyio.move_on_after(sweep_seconds):
            await watching.sweep_wanted.wait()


async def _tell_health(watching: Watching, health_file: Path, sweep_seconds: float) -> None:
    """Write the health file while sweeps end well; it grows old by itself when they do not, or when we are gone."""
    while True:
        age = time.monotonic() - watching.last_sweep
        if age < 2 * sweep_seconds + 10:
            health = {
                "written": datetime.now(timezone.utc).isoformat(),
                "is_connected": watching.is_connected,
                "seconds_since_last_sweep": round(age, 1),
            }
            part = health_file.with_name(health_file.name + ".part")
            part.write_text(json.dumps(health) + "\n")
            part.replace(health_file)
        await anyio.sleep(HEARTBEAT_SECONDS)

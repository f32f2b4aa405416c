"""Watch: follow Prefect's event stream, fill the queue that an event names, and sweep now and then.

What hooks miss (a process killed with its worker, a cancelled run, a changed limit, an outsider that ends) Prefect
still tells of as an event. One task listens, one fills what was named, one sweeps every so often. Events that come
while a fill is under way are put together: a thousand of them become few fills. A missed event costs at most the time
to the next sweep.

Each queue that an event names is looked at at once and again: see ``_events``.

Several watchers at once are harmless: promotion is atomic.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.events.schemas.events import Event

from ordered_queue._events import FLOW_RUN, Looks, News, fill_due, follow, queue_of
from ordered_queue._reports import logger
from ordered_queue.api import sweep

SWEEP_SECONDS = 60.0
PAUSE_AFTER_NOTHING_SECONDS = 0.5
"""After a round that promoted nothing: a submission's own burst of events is worth few looks."""

HEARTBEAT_SECONDS = 5.0

DEPLOYMENT_UPDATED = "prefect.deployment.updated"


@dataclass
class Watching:
    """What the tasks of a watcher share.

    Attributes:
        queues: deployments named by events, and when to fill them.
        sweep_wanted: any queue may have changed.
        is_connected: whether events arrive.
        last_sweep: when the last sweep ended well, by the monotonic clock.
    """

    queues: Looks[UUID] = field(default_factory=Looks[UUID])
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
    """Note the queues that events name."""

    def take(event: Event) -> None:
        deployment_id = queue_of(event)
        if deployment_id is not None:
            watching.queues.name(deployment_id)

    def connected(is_connected: bool) -> None:
        watching.is_connected = is_connected
        if is_connected:
            watching.sweep_wanted.tell()

    events = EventFilter(event=EventNameFilter(prefix=[FLOW_RUN, DEPLOYMENT_UPDATED]))
    await follow(events, take, connected=connected, who="Watcher", meanwhile="sweeping meanwhile")


async def _fill_what_is_named(client: PrefectClient, watching: Watching) -> None:
    while True:
        has_promoted = False
        async for deployment_id, promoted in fill_due(client, watching.queues):
            if promoted:
                has_promoted = True
                count = len(promoted)
                logger.info("Watcher: promoted %d run(s) of deployment %s after an event.", count, deployment_id)
        if not has_promoted:
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
            try:
                part = health_file.with_name(health_file.name + ".part")
                part.write_text(json.dumps(health) + "\n")
                part.replace(health_file)
            except OSError as error:
                # The probe sees it grow old; the queues are better off with a watcher than without one.
                logger.warning("Watcher: the health file cannot be written: %s.", error)
        await anyio.sleep(HEARTBEAT_SECONDS)

"""Prefect's event stream, followed for ever, and when to look at what its events name.

Prefect tells of a change before it commits it (its rules emit the event from within the transaction), so whoever acts
on an event at once may still read what was before, and nobody tells again. What an event names is therefore looked at
again: a second later, which is enough as a rule, and once more some seconds later, for a database that is busy
(docs/decisions/0010-where-the-design-was-wrong.md, (m)).
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter
from prefect.events.schemas.events import Event

from ordered_queue._fills import promote_next
from ordered_queue._reports import logger
from ordered_queue._secrets import without_secrets
from ordered_queue._steps.observe import MOST_PROMOTIONS
from ordered_queue.ordering import PARKED_TAG, PROMOTED_STATE

Key = TypeVar("Key")

SECOND_LOOK_SECONDS = 1.0
"""When something is looked at again after an event: as a rule what the event tells of is committed by then."""

LAST_LOOK_SECONDS = 5.0
"""When it is looked at for the last time: a commit that takes longer waits for the next event or sweep."""

AT_ONCE = (0.0,)
AT_ONCE_AND_AGAIN = (*AT_ONCE, SECOND_LOOK_SECONDS, LAST_LOOK_SECONDS)

LONGEST_RECONNECT_SECONDS = 30.0

BEHIND = timedelta(seconds=10)
"""From which age of an event on it is said that the stream is behind."""

FLOW_RUN = "prefect.flow-run."
DEPLOYMENT = "prefect.deployment."
PROMOTION = FLOW_RUN + PROMOTED_STATE
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


class Looks(Generic[Key]):
    """What is to be looked at, and when. Naming a thing a thousand times while one looks makes one more look of it."""

    def __init__(self) -> None:
        self._when: dict[tuple[Key, float], float] = {}
        self._news = News()

    def name(self, key: Key, after: Sequence[float] = AT_ONCE_AND_AGAIN) -> None:
        """Have it looked at, so many seconds from now each.

        A later naming puts a look off that is still to come: it must come a full second after the last event.
        """
        now = time.monotonic()
        for seconds in after:
            self._when[key, seconds] = now + seconds
        self._news.tell()

    async def due(self) -> set[Key]:
        """Wait until there is something to look at now, and return all of it."""
        while True:
            now = time.monotonic()
            reached = [look for look, when in self._when.items() if when <= now]
            if reached:
                for look in reached:
                    del self._when[look]
                return {key for key, _ in reached}
            with anyio.move_on_after(min(self._when.values(), default=math.inf) - now):
                await self._news.wait()


async def fill_due(client: PrefectClient, queues: Looks[UUID]) -> AsyncGenerator[tuple[UUID, list[UUID]], None]:
    """Wait for queues that are to be looked at and fill each; whose queue, and the runs promoted in it.

    One in which a fill promoted all that it may is named again: others get their turn before it goes on.
    """
    for deployment_id in await queues.due():
        promoted = await promote_next(client, deployment_id)
        if len(promoted) >= MOST_PROMOTIONS:
            queues.name(deployment_id, AT_ONCE)
        yield deployment_id, promoted


async def follow(
    events: EventFilter,
    take: Callable[[Event], None],
    *,
    connected: Callable[[bool], None],
    who: str,
    meanwhile: str,
) -> None:
    """Give every event of the stream to `take`; connect again for ever, with back-off. Does not return.

    Args:
        events: which ones.
        take: called for each, in the order of the stream. It must not raise.
        connected: told True at each connection (nobody told us of what happened before) and False at its end.
        who: for the log.
        meanwhile: what is done while no events arrive, for the log.
    """
    pause, level = 1.0, logging.WARNING
    while True:
        problem = "the server closed the event stream"
        try:
            async with get_events_subscriber(events, reconnection_attempts=0) as subscriber:
                logger.info("%s: following the event stream.", who)
                pause, level = 1.0, logging.WARNING
                connected(True)
                tell_if_behind = lag_teller(who, datetime.now(timezone.utc))
                async for event in subscriber:
                    tell_if_behind(event.occurred)
                    take(event)
        except Exception as error:
            problem = without_secrets(str(error)) or type(error).__name__
        connected(False)
        logger.log(level, "%s: no events (%s); %s, trying again in %.0f s.", who, problem, meanwhile, pause)
        await anyio.sleep(pause)
        # One warning for each time that it goes away, however long it stays away.
        pause, level = min(2 * pause, LONGEST_RECONNECT_SECONDS), logging.DEBUG


def queue_of(event: Event) -> UUID | None:
    """The deployment in whose queue the event may have freed a slot or brought a run; None if it cannot have."""
    if event.event in FREES_NOTHING:
        return None
    resources = [event.resource.id, *(related.id for related in event.related)]
    for resource_id in resources:
        if resource_id.startswith(DEPLOYMENT):
            return _id_in(resource_id, DEPLOYMENT)
    return None


def flow_run_of(event: Event) -> UUID | None:
    """The flow run that the event tells of."""
    return _id_in(event.resource.id, FLOW_RUN)


def is_promotion(event: Event) -> bool:
    """Whether a run of a queue is due now: promoted by us, or at its parked time by Prefect."""
    tag = f"prefect.tag.{PARKED_TAG}"
    return event.event == PROMOTION and any(related.id == tag for related in event.related)


def _id_in(resource_id: str, kind: str) -> UUID | None:
    with contextlib.suppress(ValueError):
        return UUID(resource_id.removeprefix(kind))
    return None


def lag_teller(who: str, connected: datetime) -> Callable[[datetime], None]:
    """A function that says, once a minute at most, when events arrive late.

    Args:
        who: for the log.
        connected: since when events arrive. A new connection is given those of the minute before again: they are
            late, and we are not.
    """
    told_at = float("-inf")

    def tell_if_behind(occurred: datetime) -> None:
        nonlocal told_at
        lag = datetime.now(timezone.utc) - occurred
        if occurred > connected and lag > BEHIND and time.monotonic() - told_at > 60:
            told_at = time.monotonic()
            logger.warning("%s: %.0f s behind the event stream.", who, lag.total_seconds())

    return tell_if_behind

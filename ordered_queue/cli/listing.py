"""`ordered-queue ls`: what holds a slot and what waits, in order."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import pendulum
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Table
from rich.text import Text

from ordered_queue._drive import drive_sync
from ordered_queue._steps.queue import list_queue
from ordered_queue.cli.connection import connected
from ordered_queue.cli.failures import printable
from ordered_queue.cli.names import full_names
from ordered_queue.cli.terminal import output, put, say
from ordered_queue.ordering import is_bounced, scheduled_time
from ordered_queue.runs import QueueListing, Standing, Verdict
from ordered_queue.submission import SUBMISSION_LABEL

WIDE = 150
NARROW = 100
"""From the one width on there is room for the submission's key too, below the other none for the run's name."""

COLUMNS = ("position", "state", "for", "age", "name", "flow run", "submission")

_STANDINGS = {
    Standing.WAITING: "waiting",
    Standing.PROMOTED: "promoted",
    Standing.RETRYING: "waits for a retry",
    Standing.OUTSIDER: "due, not queued",
}
_OCCUPYING = (Standing.ACTIVE, Standing.RETRYING, Standing.PROMOTED, Standing.OUTSIDER)
"""In this order they are shown, before what waits; what takes no part comes last."""


def ls(
    deployment: str,
    /,
    *,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], validator=Number(gte=1))] = 50,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Show what holds a slot of a deployment and what waits for one, in order.

    Positions count from 0, which is promoted next. Runs out of reach, which no worker is ever given, come last and
    have none. A run whose lease has lapsed shows no sign of life and occupies no slot.

    Args:
        deployment: "flow/deployment", or an id.
        limit: How many waiting runs to show at most.
        as_json: Print one JSON object.
    """
    with connected() as client:
        listing = drive_sync(client, list_queue(deployment, limit))
        found = listing.deployment
        name = drive_sync(client, full_names([found.id])).get(found.id, found.name)
    shown = shown_runs(listing, limit)
    if as_json:
        put(json.dumps(as_object(name, listing, shown, limit), indent=2))
        return
    put(header(name, listing, limit))
    if shown:
        output().print(_table(shown, listing.now))
    if _of(listing, Standing.OUT_OF_REACH):
        say("No worker is ever given the runs out of reach: `ordered-queue doctor` says what to do about them.")
    if _of(listing, Standing.ZOMBIE):
        say("A run without a sign of life no longer occupies a slot: `ordered-queue doctor` says what to do about it.")
    if listing.decision.promote:
        say("A slot is free for a run that waits: `ordered-queue sweep` fills it, if nothing else does in a moment.")


@dataclass(frozen=True)
class ShownRun:
    """A run as `ls` shows it.

    Attributes:
        verdict: what was decided about it.
        state: what it does, in a word or two.
        since: when it came into its state; None if the server does not say.
        created: when it was submitted; None if the server does not say.
    """

    verdict: Verdict
    state: str
    since: datetime | None
    created: datetime | None

    @property
    def submission(self) -> str:
        """The key of its submission; empty if it came another way."""
        return str(self.verdict.run.labels.get(SUBMISSION_LABEL, ""))


def shown_runs(listing: QueueListing, most: int) -> list[ShownRun]:
    """What occupies, the longest in its state first; zombies; the first `most` that wait; as many out of reach."""
    occupying = [_shown(verdict) for verdict in listing.decision.verdicts if verdict.standing.is_occupying]
    occupying.sort(key=lambda run: (_OCCUPYING.index(run.verdict.standing), run.since or listing.now))
    waiting = _of(listing, Standing.WAITING)
    # Of those out of reach the promoted ones first, which are Late for ever.
    out_of_reach = _of(listing, Standing.OUT_OF_REACH)
    out_of_reach.sort(key=lambda verdict: scheduled_time(verdict.run) or listing.now)
    others = (*_of(listing, Standing.ZOMBIE), *waiting[:most], *out_of_reach[:most])
    return [*occupying, *map(_shown, others)]


def _of(listing: QueueListing, standing: Standing) -> list[Verdict]:
    return [verdict for verdict in listing.decision.verdicts if verdict.standing is standing]


def _shown(verdict: Verdict) -> ShownRun:
    run = verdict.run
    state = _STANDINGS.get(verdict.standing) or (run.state.name if run.state and run.state.name else "active")
    if verdict.standing is Standing.WAITING and is_bounced(run):
        state = "waiting (bounced)"
    if verdict.standing is Standing.OUT_OF_REACH:
        state = f"{state} (out of reach)"
    if verdict.standing is Standing.ZOMBIE:
        state = f"{state} (no sign of life)"
    return ShownRun(verdict, state, run.state.timestamp if run.state else None, run.created)


def header(name: str, listing: QueueListing, most: int) -> str:
    """The queue in one line."""
    decision = listing.decision
    limit = "no limit" if decision.limit is None else f"limit {decision.limit}"
    parts = [limit, f"{decision.occupied} occupied", f"{_count(listing, most)} waiting"]
    if out_of_reach := _of(listing, Standing.OUT_OF_REACH):
        parts.append(f"{len(out_of_reach)} out of reach")
    if zombies := _of(listing, Standing.ZOMBIE):
        parts.append(f"{len(zombies)} without a sign of life")
    if listing.deployment.paused:
        parts.append("paused")
    return f"{printable(name)}: {', '.join(parts)}"


def _count(listing: QueueListing, most: int) -> str:
    waiting = len(_of(listing, Standing.WAITING))
    if listing.is_whole:
        return str(waiting)
    return f"more than {most}" if waiting > most else f"at least {waiting}"


def _table(shown: list[ShownRun], now: datetime) -> Table:
    is_terminal = sys.stdout.isatty()
    columns = columns_for(output().width)
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold" if is_terminal else "")
    for column in columns:
        # A narrow terminal squeezes the words and never the ids: an id cut short is of no use to anyone.
        table.add_column(
            column,
            justify="right" if column == "position" else "left",
            overflow="fold",
            no_wrap=column == "flow run",
        )
    for run in shown:
        position = run.verdict.position
        cells = {
            "position": "" if position is None else str(position),
            "state": run.state,
            "for": in_words(now, run.since),
            "age": in_words(now, run.created),
            "name": run.verdict.run.name,
            "flow run": str(run.verdict.run.id),
            "submission": run.submission,
        }
        table.add_row(*(Text(printable(cells[column])) for column in columns))
    return table


def columns_for(width: int) -> tuple[str, ...]:
    """The columns that an output of this width has room for."""
    dropped = {"submission"} if width < WIDE else set[str]()
    if width < NARROW:
        dropped.add("name")
    return tuple(column for column in COLUMNS if column not in dropped)


def in_words(now: datetime, then: datetime | None) -> str:
    """How long ago that is, for a human."""
    if then is None:
        return ""
    return pendulum.instance(now).diff_for_humans(pendulum.instance(then), absolute=True)


def as_object(name: str, listing: QueueListing, shown: list[ShownRun], most: int) -> dict[str, Any]:
    """The queue for a program; times are UTC, positions count from 0."""
    waiting = _of(listing, Standing.WAITING)
    return {
        "deployment": name,
        "deployment_id": str(listing.deployment.id),
        "now": listing.now.isoformat(),
        "paused": listing.deployment.paused,
        "limit": listing.decision.limit,
        "occupied": listing.decision.occupied,
        "waiting": len(waiting),
        "more_waiting": not listing.is_whole or len(waiting) > most,
        "out_of_reach": len(_of(listing, Standing.OUT_OF_REACH)),
        "zombies": len(_of(listing, Standing.ZOMBIE)),
        "runs": [_run_object(run) for run in shown],
    }


def _run_object(shown: ShownRun) -> dict[str, Any]:
    run = shown.verdict.run
    return {
        "flow_run_id": str(run.id),
        "name": run.name,
        "standing": shown.verdict.standing.value,
        "state": run.state.name if run.state else None,
        "position": shown.verdict.position,
        "reason": shown.verdict.reason.value,
        "since": None if shown.since is None else shown.since.isoformat(),
        "created": None if shown.created is None else shown.created.isoformat(),
        "submission": shown.submission or None,
    }

"""What became of every run of a soak, judged from the states that Prefect kept of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import dropwhile, pairwise

FINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
ACTIVE = frozenset({"PENDING", "RUNNING", "CANCELLING"})
PROMOTED, BOUNCED = "Late", "AwaitingConcurrencySlot"

LEASE = timedelta(seconds=300)
"""For so long a run whose process is gone holds its slot: until its lease lapses."""

ONE_FILL = timedelta(seconds=10)
"""A fill takes less. What came to the queue within that before a promotion, the fill may not have seen: a race."""

OF_A_KILL = timedelta(seconds=180)
"""A run that ends badly so soon after a kill ended so by it: Prefect's client alone tries for a minute."""


@dataclass(frozen=True)
class Entry:
    """A state that a run was in.

    Attributes:
        when: since when.
        type: its type, as ``SCHEDULED``.
        name: its name.
        due: when a poller may take a run in it; None if it is not Scheduled.
    """

    when: datetime
    type: str
    name: str
    due: datetime | None = None


@dataclass(frozen=True)
class History:
    """A run and all its states.

    Attributes:
        run_id: of the run.
        key: submission key and position.
        parked: the time it was first parked at, by which the queue is ordered.
        created: when it was made.
        state_type: of the state that it remains in; it may not be the one with the latest time.
        states: by time.
    """

    run_id: str
    key: str
    parked: datetime
    created: datetime
    state_type: str
    states: Sequence[Entry]


@dataclass(frozen=True)
class Spell:
    """How long a run waited, or occupied a slot.

    Attributes:
        run: which run.
        start: since when.
        end: until when. A bounced run waits until it is due: from then on a poller may take it.
        left: when it left the state that it waited in; the end of one that occupied.
        is_bounced: whether Prefect had put it back.
    """

    run: History
    start: datetime
    end: datetime
    left: datetime
    is_bounced: bool = False

    def order(self) -> tuple[bool, datetime, str]:
        """Where it stands in the queue while it waits."""
        return (not self.is_bounced, self.run.parked, self.run.run_id)


@dataclass
class Verdict:
    """What happened in one queue.

    Attributes:
        counts: how often what happened.
        longest: how long it took at most, and since when.
        overtaken: for each promotion out of order, the run promoted and the first one that it overtook.
    """

    counts: Counter[str] = field(default_factory=Counter)
    overtaken: list[tuple[History, datetime, Spell]] = field(default_factory=list)
    longest: dict[str, tuple[timedelta, datetime | None]] = field(default_factory=dict)

    def at_most(self, what: str, duration: timedelta, when: datetime) -> None:
        """Keep the longest of a kind."""
        if duration > self.longest.get(what, (timedelta(0), None))[0]:
            self.longest[what] = (duration, when)


def judge(
    runs: Sequence[History],
    limit: int,
    wanted: Mapping[str, int],
    executed: Counter[str],
    kills: Sequence[datetime],
    ended: datetime,
) -> Verdict:
    """Judge one queue.

    Args:
        runs: all its runs.
        limit: its concurrency limit.
        wanted: how many runs each submission key stands for.
        executed: how often each run was executed.
        kills: when something was killed.
        ended: when the soak was over.
    """
    verdict = Verdict()
    counts = verdict.counts
    keys = Counter(run.key for run in runs)
    counts["submitted"] = sum(wanted.values())
    counts["lost"] = sum(f"{key}/{place}" not in keys for key, count in wanted.items() for place in range(count))
    counts["parked twice"] = sum(count - 1 for count in keys.values())
    counts["executed twice"] = sum(executed[run.run_id] > 1 for run in runs)
    for run in runs:
        counts[_outcome(run, kills)] += 1
        counts["revived"] += _is_revived(run)
        counts["taken by a poller after its end"] += _is_taken_after_its_end(run)
    _judge_times(verdict, runs, limit, ended)
    return verdict


def _outcome(run: History, kills: Sequence[datetime]) -> str:
    if run.state_type in ("COMPLETED", "CANCELLED"):
        return run.state_type.lower()
    last = run.states[-1].when
    # A left run was in its last state from before the kill on; a crashed one came to its state after it.
    if run.state_type == "CRASHED":
        return "crashed by our kills" if any(kill <= last < kill + OF_A_KILL for kill in kills) else "crashed"
    if run.state_type in ACTIVE:
        return "left active by our kills" if any(last - OF_A_KILL < kill < last + LEASE for kill in kills) else "stuck"
    return "still waiting" if run.state_type == "SCHEDULED" else "failed"


def _is_revived(run: History) -> bool:
    """Whether a promotion brought it back. One that came too late was refused, whatever the states' times say."""
    after = list(dropwhile(lambda entry: entry.type not in FINAL, run.states))
    is_promoted = any(entry.name == PROMOTED for entry in after)
    return is_promoted and (run.state_type not in FINAL or any(entry.type == "RUNNING" for entry in after))


def _is_taken_after_its_end(run: History) -> bool:
    """Prefect accepts Pending for a run that has ended: a poller took it that had read its list before."""
    return any(before.type in FINAL and after.type == "PENDING" for before, after in pairwise(run.states))


def _judge_times(verdict: Verdict, runs: Sequence[History], limit: int, ended: datetime) -> None:
    waits = [spell for run in runs for spell in waiting(run, ended)]
    holds = [spell for run in runs for spell in occupying(run, ended)]
    promotions = sorted((entry.when, run.run_id) for run in runs for entry in run.states if entry.name == PROMOTED)
    verdict.counts["promotions"] = len(promotions)
    by_promotion = {(spell.run.run_id, spell.left): spell for spell in waits}
    for when, run_id in promotions:
        held = sum(spell.start <= when < spell.end and spell.run.run_id != run_id for spell in holds)
        verdict.counts["promoted beyond the limit"] += held >= limit
        mine = by_promotion.get((run_id, when))
        if mine is None or when - mine.end > ONE_FILL:
            verdict.counts["promoted while it did not wait"] += 1
            continue
        earlier = [spell for spell in waits if spell.start < when < spell.end and spell.order() < mine.order()]
        passed = [spell for spell in earlier if when - spell.start > ONE_FILL]
        if passed:
            verdict.counts["out of order"] += 1
            verdict.overtaken.append((mine.run, when, min(passed, key=Spell.order)))
        elif earlier:
            verdict.counts["overtaken by a race"] += 1
    for run in runs:
        for entry, after in pairwise(run.states):
            since = _ready_since(entry)
            if since is not None and after.type == "PENDING":
                verdict.at_most("promoted or due, to Pending", after.when - since, since)
    _judge_idle(verdict, waits, holds, limit)


def _judge_idle(verdict: Verdict, waits: Iterable[Spell], holds: Iterable[Spell], limit: int) -> None:
    """For how long at a stretch a run waited while a slot was free."""
    edges = sorted(
        [(spell.start, 1, 0) for spell in waits]
        + [(spell.end, -1, 0) for spell in waits]
        + [(spell.start, 0, 1) for spell in holds]
        + [(spell.end, 0, -1) for spell in holds]
    )
    waiting_now = held = 0
    since: datetime | None = None
    for moment, wait_change, hold_change in edges:
        waiting_now += wait_change
        held += hold_change
        is_idle = waiting_now > 0 and held < limit
        if is_idle and since is None:
            since = moment
        elif not is_idle and since is not None:
            verdict.at_most("slot idle while a run waited", moment - since, since)
            since = None


def waiting(run: History, ended: datetime) -> Iterable[Spell]:
    """When the run waited to be promoted."""
    for entry, left in _with_ends(run, ended):
        if entry.type == "SCHEDULED" and entry.name != PROMOTED:
            end = left if entry.due is None else min(left, entry.due)
            yield Spell(run, entry.when, end, left, is_bounced=entry.name == BOUNCED)


def occupying(run: History, ended: datetime) -> Iterable[Spell]:
    """When the run held a slot, or had one promised. One that was left active holds it until its lease lapses."""
    since: datetime | None = None
    for entry, left in _with_ends(run, min(ended, run.states[-1].when + LEASE)):
        start = entry.when if entry.type in ACTIVE else _ready_since(entry)
        if start is None or start >= left:
            start = None
        if since is not None and start != entry.when:
            yield Spell(run, since, entry.when, entry.when)
            since = None
        since = since or start
    if since is not None:
        yield Spell(run, since, left, left)


def _ready_since(entry: Entry) -> datetime | None:
    """Since when a poller may take a run in this state; None if it never may."""
    if entry.name == PROMOTED:
        return entry.when
    return entry.due if entry.type == "SCHEDULED" else None


def _with_ends(run: History, ended: datetime) -> Iterable[tuple[Entry, datetime]]:
    """Each state, and when the run left it."""
    return zip(run.states, [*(entry.when for entry in run.states[1:]), ended], strict=True)

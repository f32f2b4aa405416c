"""Whether order and limit held. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from ordered_queue.testing import idle_times, most_at_once, out_of_order_pairs


@dataclass(frozen=True)
class RunRecord:
    """What happened to one run.

    Attributes:
        position: its 0-based place among all runs, by parked time.
        name: its name.
        submitter: who parked it.
        submitted: when the server created it.
        slot_taken: when it became Pending.
        started: when it became Running.
        ended: when it reached its final state. None of these three if it did not come that far.
        final_state: the name of its last state.
    """

    position: int
    name: str
    submitter: str
    submitted: datetime
    slot_taken: datetime | None
    started: datetime | None
    ended: datetime | None
    final_state: str


@dataclass(frozen=True)
class Outcome:
    """What the demo shows.

    Attributes:
        out_of_order_pairs: pairs, at least the limit apart, that started in the wrong order.
        most_at_once: the most runs that were Running at once.
        median_idle: how long a slot stood idle between two runs, None if no slot was used twice.
        problems: what was broken, in words; empty if nothing was.
    """

    out_of_order_pairs: int
    most_at_once: int
    median_idle: timedelta | None
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 if nothing was broken, else 1."""
        return 1 if self.problems else 0


def judge(records: Sequence[RunRecord], expected: int, limit: int) -> Outcome:
    """Judge what happened.

    Args:
        records: one for each run, in any order.
        expected: how many runs were parked.
        limit: the concurrency limit.
    """
    ordered = sorted(records, key=lambda record: record.position)
    wrong = out_of_order_pairs([record.started for record in ordered if record.started], limit)
    most = most_at_once((record.started, record.ended) for record in ordered if record.started and record.ended)
    held = [(record.slot_taken, record.ended) for record in ordered if record.slot_taken and record.ended]
    idle = [each.total_seconds() for each in idle_times(held, limit)]
    problems: list[str] = []
    completed = [record for record in ordered if record.final_state == "Completed"]
    if len(completed) != expected:
        others = ", ".join(f"{record.name} is {record.final_state}" for record in ordered if record not in completed)
        problems.append(f"{len(completed)} of {expected} runs completed ({others or 'the others are missing'})")
    if wrong:
        problems.append(f"{wrong} pairs of runs started out of order")
    if most > limit:
        problems.append(f"{most} runs ran at once; the limit is {limit}")
    median_idle = timedelta(seconds=median(idle)) if idle else None
    return Outcome(wrong, most, median_idle, tuple(problems))

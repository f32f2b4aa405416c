"""What is computed from samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from ordered_queue.testing import idle_times, out_of_order_pairs

PENDING = "PENDING"
RUNNING = "RUNNING"


def percentile(samples: Iterable[float], percent: float) -> float:
    """The smallest sample that at least `percent` % of the samples do not exceed (nearest rank).

    Raises:
        ValueError: there are no samples, or `percent` is not from 0 to 100.
    """
    ordered = sorted(samples)
    if not ordered or not 0 <= percent <= 100:
        raise ValueError(f"No {percent}th percentile of {len(ordered)} samples.")
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True)
class RunHistory:
    """What became of one run.

    Attributes:
        states: (type, name, timestamp) of every state that was written, the earliest first.
    """

    states: tuple[tuple[str, str, datetime], ...]

    def first(self, type_name: str) -> datetime | None:
        """When it first was in a state of that type."""
        return next((when for each, _, when in self.states if each == type_name), None)

    @property
    def ended(self) -> datetime:
        """When it came to its last state."""
        return self.states[-1][2]


def order_figures(histories: Sequence[RunHistory], limit: int, submitted: datetime) -> dict[str, Any]:
    """How a queue went: order, idle time of slots, makespan, states.

    Args:
        histories: of all runs, in order of submission; each ended.
        limit: the concurrency limit.
        submitted: when the first was submitted.
    """
    ran = [history for history in histories if history.first(PENDING) and history.first(RUNNING)]
    started = [when for history in ran if (when := history.first(RUNNING))]
    held = [(when, history.ended) for history in ran if (when := history.first(PENDING))]
    launches = [(start - taken).total_seconds() for start, (taken, _) in zip(started, held, strict=True)]
    apart = len(ran) - limit
    return {
        "runs": len(histories),
        "limit": limit,
        "completed": sum(history.states[-1][1] == "Completed" for history in histories),
        "out_of_order_pairs": out_of_order_pairs(started, limit),
        "pairs": apart * (apart + 1) // 2 if apart > 0 else 0,
        "idle_seconds": [round(each.total_seconds(), 3) for each in idle_times(held, limit)],
        "launch_seconds": [round(each, 3) for each in launches],
        "makespan_seconds": round((max(history.ended for history in histories) - submitted).total_seconds(), 2),
        "states_per_run": round(sum(len(history.states) for history in histories) / len(histories), 2),
        "histories": sorted({" ".join(name for _, name, _ in history.states) for history in histories})[:8],
    }


def summary(samples: Sequence[float]) -> dict[str, Any]:
    """Median and spread of some samples, for a record."""
    return {
        "median": round(median(samples), 3),
        "p5": round(percentile(samples, 5), 3),
        "p95": round(percentile(samples, 95), 3),
        "samples": len(samples),
    }

"""The goals of the design beside what was measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.figures import percentile
from bench.records import Record
from bench.scans import is_sequential

Found = dict[tuple[str, str, str], dict[str, Any]]

FULL, THIN = "full queue", "thin queue"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        what: what is to be reached.
        goal: how much of it.
        measured: the figure in words and whether it was reached; None if it was not measured.
        if_missed: what there is to say then.
    """

    what: str
    goal: str
    measured: Callable[[Found], tuple[str, bool] | None]
    if_missed: str = ""


def goals(records: Sequence[Record]) -> str:
    """The table of goals."""
    found = {record.key: record.figures for record in records if "skipped" not in record.figures}
    lines = ["| what | goal | measured | reached |", "| --- | --- | --- | --- |"]
    for goal in GOALS:
        measured = goal.measured(found)
        text, verdict = (NOT_MEASURED, "") if measured is None else (measured[0], "yes" if measured[1] else "**no**")
        if measured is not None and not measured[1]:
            text += goal.if_missed
        lines.append(f"| {goal.what} | {goal.goal} | {text} | {verdict} |")
    return "\n".join(lines) + "\n"


def _rounds(found: Found, variant: str, case: str = FULL) -> list[dict[str, Any]]:
    return found.get(("order", variant, case), {}).get("rounds", [])


def _order(found: Found) -> tuple[str, bool] | None:
    ours = [
        one
        for (name, variant, _), figures in found.items()
        if name == "order" and variant != "enqueue"
        for one in figures["rounds"]
    ]
    native = _rounds(found, "enqueue")
    if not ours or not native:
        return None
    wrong = sum(one["out_of_order_pairs"] for one in ours)
    theirs = f"{sum(one['out_of_order_pairs'] for one in native)} of {sum(one['pairs'] for one in native)}"
    return f"{wrong} of {sum(one['pairs'] for one in ours)}; native {theirs}", wrong == 0


def _idle(variant: str, case: str, most_p50: float, most_p95: float | None = None) -> Callable[[Found], Any]:
    def measured(found: Found) -> tuple[str, bool] | None:
        idle = [each for one in _rounds(found, variant, case) for each in one["idle_seconds"]]
        if not idle:
            return None
        middle, high = median(idle), percentile(idle, 95)
        text = f"p50 {middle:.3f} s, p95 {high:.3f} s, {len(idle)} times"
        return text, middle <= most_p50 and (most_p95 is None or high <= most_p95)

    return measured


def _requests(did: str, most: int) -> Callable[[Found], Any]:
    def measured(found: Found) -> tuple[str, bool] | None:
        counts = {
            each
            for figures in found.values()
            if figures.get("did") == did and figures.get("depth")
            for each in figures["requests"]
        }
        return (" or ".join(map(str, sorted(counts))), max(counts) <= most) if counts else None

    return measured


def _flat(did: str, kind: str, most: float) -> Callable[[Found], Any]:
    def measured(found: Found) -> tuple[str, bool] | None:
        times = {
            figures["depth"]: median(figures["milliseconds"])
            for (name, variant, _), figures in found.items()
            if name == "flat" and variant == kind and figures.get("did") == did
        }
        if not {1_000, 100_000} <= times.keys():
            return None
        shown = ", ".join(f"{times[depth]:.0f} ms behind {depth:,}" for depth in sorted(times) if depth)
        ratio = times[100_000] / min(times[depth] for depth in times if 0 < depth <= 1_000)
        return f"{ratio:.2f} times: {shown}", ratio <= most

    return measured


def _sequential(found: Found) -> tuple[str, bool] | None:
    plans = [
        plan
        for (name, variant, _), figures in found.items()
        if name == "flat" and variant == "postgresql"
        for plan in figures.get("plans", [])
    ]
    scanning = sum(map(is_sequential, plans))
    return (f"{scanning} of {len(plans)} statements", scanning == 0) if plans else None


def _parking(other: str, least: float) -> Callable[[Found], Any]:
    def rate(figures: dict[str, Any]) -> float:
        return median([one["runs_per_second"] for one in figures["rounds"]])

    def measured(found: Found) -> tuple[str, bool] | None:
        ratios = {
            variant: rate(figures) / rate(found[(name, variant, other)])
            for (name, variant, case), figures in found.items()
            if name == "park" and case == "park" and (name, variant, other) in found
        }
        if not ratios:
            return None
        return ", ".join(f"{ratio:.2f} times ({kind})" for kind, ratio in ratios.items()), min(ratios.values()) >= least

    return measured


def _states(found: Found) -> tuple[str, bool] | None:
    each = {
        variant: max(one["states_per_run"] for one in figures["rounds"])
        for (name, variant, case), figures in found.items()
        if name == "order" and case == FULL
    }
    ours = {variant: count for variant, count in each.items() if variant != "enqueue"}
    if not ours:
        return None
    native = f"; native {each['enqueue']:.1f}" if "enqueue" in each else ""
    return f"{min(ours.values()):.1f} to {max(ours.values()):.1f}{native}", max(ours.values()) <= 6


def _makespan(found: Found) -> tuple[str, bool] | None:
    def whole(variant: str) -> list[dict[str, Any]]:
        return [one for one in _rounds(found, variant) if one["runs"] == 20]

    ours, native = whole("ordered-process"), whole("enqueue")
    if not ours:
        return None
    seconds = median([one["makespan_seconds"] for one in ours])
    start = median([each for one in ours for each in one["launch_seconds"]])
    text = f"{seconds:.1f} s"
    if native:
        text += f"; native {median([one['makespan_seconds'] for one in native]):.1f} s"
    # Ten runs a slot, one after the other: what no queue can take away.
    text += f". Ten runs of 3 s and their processes' starts, p50 {start:.2f} s, are {10 * (3 + start):.0f} s of it"
    return text, seconds < 50


GOALS = (
    Goal("out-of-order pairs, against native ENQUEUE in the same run", "0, native about half", _order),
    Goal("a slot's idle time, watcher + a 1 s poller", "p50 1 s", _idle("serve-1s-watch", FULL, 1.0)),
    Goal("a slot's idle time, our own worker", "p50 0.3 s, p95 1 s", _idle("ordered-process", FULL, 0.3, 1.0)),
    Goal(
        "the same, thin queue",
        "p50 0.3 s, p95 1 s",
        _idle("ordered-process", THIN, 0.3, 1.0),
        if_missed=". It is the five requests of a fill, the poll and the way to Pending, on cores that start processes",
    ),
    Goal("requests of a fill that finds nothing to do", "at most 4", _requests("promotes nobody", 4)),
    Goal("requests of a fill up to the promoting write", "at most 5", _requests("promotes one", 5)),
    Goal(
        "a hand-over behind 100,000 waiting runs, against the faster of 10 and 1,000, PostgreSQL",
        "at most 1.3 times",
        _flat("promotes one", "postgresql", 1.3),
    ),
    Goal("sequential scans of flow runs behind 100,000, PostgreSQL", "none", _sequential),
    Goal("parking, read back, against the bare bulk route", "at least 0.8 times its speed", _parking("bare bulk", 0.8)),
    Goal("parking against a loop over `run_deployment`", "at least 2 times its speed", _parking("one loop", 2.0)),
    Goal("states written per run over its life", "at most 6", _states),
    Goal("makespan of 20 runs of 3 s, limit 2, our worker", "under 50 s", _makespan),
    Goal("launch of a flow's process to Running, our worker's warm start", "at most 0.5 s", lambda found: None),
)

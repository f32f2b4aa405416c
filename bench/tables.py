"""The tables of the page, and of the terminal. Pure: records in, Markdown out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.figures import percentile
from bench.markdown import number, spread, table
from bench.records import Record
from bench.scans import abridged, is_sequential, runs_scans

Figures = dict[str, Any]

ORDER_WORDS = {
    "enqueue": "native ENQUEUE, Prefect's `serve`, poll 10 s",
    "serve-10s": "this, Prefect's `serve`, poll 10 s",
    "serve-1s": "this, Prefect's `serve`, poll 1 s",
    "serve-1s-watch": "this, Prefect's `serve`, poll 1 s, and the watcher",
    "process-worker": "this, Prefect's process worker as it comes (poll 10 s)",
    "ordered-process": "this, worker type `ordered-process`",
    "hand-over-slot": "this, `hand_over_slot` alone, Prefect's `serve`, poll 1 s",
}


def tables(name: str, records: Sequence[Record]) -> str:
    """The tables of one measurement."""
    skipped = [record for record in records if "skipped" in record.figures]
    measured = [record for record in records if "skipped" not in record.figures]
    notes = "".join(f"\n{record.variant}: left out, {record.figures['skipped']}.\n" for record in skipped)
    return (TABLES[name](measured) + _apart(measured) if measured else "") + notes


def _apart(records: Sequence[Record]) -> str:
    """A warning if the rows were not taken side by side, so that they are not compared as if they were."""
    runs = {record.run for record in records}
    if len(runs) == 1:
        return ""
    rows = (f"{record.variant} ({record.case}) in {record.run or 'an unknown run'}" for record in records)
    return f"\n**Not one run**, so the rows were not taken side by side: {'; '.join(rows)}.\n"


def _order(records: Sequence[Record]) -> str:
    parts: list[str] = []
    for case in dict.fromkeys(record.case for record in records):
        rows = [_order_row(record) for record in records if record.case == case]
        headings = [
            case,
            "rounds x runs",
            "out of order, of",
            "idle p50",
            "idle p95",
            "idle worst",
            "makespan",
            "Pending to Running, p50",
            "requests a run",
            "states a run",
        ]
        parts.append(table(headings, rows))
    full = [record for record in records if record.case == records[0].case]
    kinds = dict.fromkeys(kind for record in full for kind in _requests(record))
    rows = [[f"`{kind}`", *(_requests(record).get(kind, "") for record in full)] for kind in kinds]
    parts.append(table([f"{records[0].case}: requests a run", *(record.variant for record in full)], rows))
    return "\n".join(parts) + "\n" + ORDER_NOTES


def _requests(record: Record) -> dict[str, str]:
    """Requests of each kind for a run, the most frequent first; what is rarer than one in ten runs is left out."""
    runs = sum(one["runs"] for one in record.figures["rounds"])
    counts: Counter[str] = Counter()
    for one in record.figures["rounds"]:
        counts.update(one["requests"])
    return {kind: f"{count / runs:.1f}" for kind, count in counts.most_common() if count * 10 >= runs}


ORDER_NOTES = """\
Runs of 3 s, limit 2, SQLite. *Full queue*: all runs are submitted at once. *Thin queue*: each arrives while one waits.
Out of order: pairs of runs at least as many positions apart as the limit that became Running in the wrong order.
Idle: from a run's final state to the Pending of the run that took its slot. Makespan: from the submission to the last
final state; starting a flow's process is in it. Requests: everything in the server's access log from the submission on,
polls included.
"""


def _order_row(record: Record) -> list[object]:
    rounds: list[Figures] = record.figures["rounds"]
    idle = [each for one in rounds for each in one["idle_seconds"]]
    launch = [each for one in rounds for each in one["launch_seconds"]]
    undone = sum(one["runs"] - one["completed"] for one in rounds)
    pairs = f"{sum(one['out_of_order_pairs'] for one in rounds)} of {sum(one['pairs'] for one in rounds)}"
    return [
        ORDER_WORDS.get(record.variant, record.variant),
        f"{len(rounds)} x {rounds[0]['runs']}" + (f", {undone} did not complete" if undone else ""),
        pairs,
        f"{number(median(idle))} s" if idle else "none",
        f"{number(percentile(idle, 95))} s" if idle else "none",
        f"{number(max(idle))} s" if idle else "none",
        spread([one["makespan_seconds"] for one in rounds], " s"),
        f"{number(median(launch))} s",
        spread([one["requests_per_run"] for one in rounds]),
        spread([one["states_per_run"] for one in rounds]),
    ]


def _flat(records: Sequence[Record]) -> str:
    parts: list[str] = []
    fills = [record for record in records if "did" in record.figures]
    for did in dict.fromkeys(record.figures["did"] for record in fills):
        rows = [_flat_row(record) for record in fills if record.figures["did"] == did]
        headings = [
            "waiting",
            "samples",
            "requests",
            "bytes sent",
            "bytes received",
            "milliseconds, median",
            "p5 to p95",
        ]
        parts.append(table([f"a fill that {did}: {headings[0]}", *headings[1:]], rows))
    kinds = ["deployment", "head", "due", "active", "promote"]
    rows = [
        [f"{record.variant}, {record.case}", *(_milliseconds(record.figures["by_request"].get(kind)) for kind in kinds)]
        for record in fills
    ]
    parts.append(table(["each request alone, milliseconds, median", *kinds], rows))
    parts += [_plans(record) for record in records if "plans" in record.figures]
    return "\n".join(parts) + "\n" + FLAT_NOTES


FLAT_NOTES = """\
A queue for each depth, all in one database, taking turns; 300,000 finished runs, shared out evenly among the queues
where something waits. So each queue also stands beside the others' runs, which a database of its own would not have.
Limit 1. Milliseconds are the client's: from before the first request to after the last answer.
"""


def _flat_row(record: Record) -> list[object]:
    figures = record.figures
    times = figures["milliseconds"]
    return [
        f"{record.variant}, {figures['depth']:,}",
        len(times),
        " or ".join(str(each) for each in figures["requests"]),
        figures["sent_bytes"],
        figures["received_bytes"],
        number(median(times)),
        f"{number(percentile(times, 5))} to {number(percentile(times, 95))}",
    ]


def _milliseconds(figures: Figures | None) -> str:
    return "" if figures is None else number(figures["median"])


def _plans(record: Record) -> str:
    plans: list[Figures] = record.figures["plans"]
    scanning = [plan for plan in plans if is_sequential(plan)]
    rows = [[f"`{abridged(plan['statement'])}`", number(plan["ms"]), "; ".join(runs_scans(plan))] for plan in plans[:8]]
    verdict = (
        f"{len(scanning)} of {len(plans)} statements about flow runs scan that table sequentially"
        if scanning
        else f"None of {len(plans)} statements about flow runs scans that table sequentially"
    )
    title = f"{record.variant}, behind {record.figures['depth']:,} waiting: statement"
    return table([title, "milliseconds", "how it reads flow runs"], rows) + f"\n{verdict}.\n"


def _park(records: Sequence[Record]) -> str:
    rows: list[list[object]] = []
    for record in records:
        rounds: list[Figures] = record.figures["rounds"]
        rate = median([one["runs_per_second"] for one in rounds])
        beside = {
            other.case: median([one["runs_per_second"] for one in other.figures["rounds"]])
            for other in records
            if other.variant == record.variant
        }
        rows.append(
            [
                f"{record.variant}: {record.case}",
                f"{len(rounds)} x {rounds[0]['asked']:,}",
                spread([one["seconds"] for one in rounds], " s"),
                spread([one["runs_per_second"] for one in rounds]),
                number(beside["park"] / rate),
                " ".join(f"{one['there']:,}" for one in rounds),
            ]
        )
    headings = ["way", "rounds x runs", "seconds", "runs a second", "`park` against it", "runs there afterwards"]
    return table(headings, rows) + "\n" + PARK_NOTES


PARK_NOTES = """\
One server for each database, the ways take turns. *park* reads every run back and fills. *Bare bulk* sends chunks of
100 to Prefect's bulk route and believes the answer, so runs can be missing afterwards. *One loop* and *eight loops*
call `run_deployment(timeout=0)` for fewer runs, to save time, and are compared by runs a second: that this speed does
not depend on how many there are is taken for granted here. The speed is that of runs that are there afterwards.
"""


def _cost(records: Sequence[Record]) -> str:
    rows: list[list[object]] = []
    for record in records:
        figures = record.figures
        what = f"{record.variant}, {record.case}"
        if record.variant == "watcher":
            rows.append([what, f"{figures['requests_per_hour']:,} requests an hour", f"{figures['seconds']} s, scaled"])
            continue
        times = figures["milliseconds"]
        rows.append([what, spread(times, " ms"), f"{len(times)} samples"])
        if "megabytes" in figures:
            rows.append([f"{what}, memory", spread(figures["megabytes"], " MB"), f"{len(times)} samples"])
            rows.append([f"{what}, whole process", spread(figures["whole_megabytes"], " MB"), f"{len(times)} samples"])
    return table(["what", "median (from, to)", "from"], rows) + "\n" + COST_NOTES


COST_NOTES = """\
*import*: what `import ordered_queue` adds in a new process, after `from prefect import flow` (in a script) and after
what a flow's process has imported anyway. *hook*: the call of `hand_over_on_end` in a process that has not called it
before. *watcher*: with its default sweep each minute; its event stream, a websocket, is not counted.
"""

TITLES = {
    "order": "Order and idle slots",
    "flat": "Flat hand-over",
    "park": "Parking",
    "cost": "The cost of being there",
}
TABLES: dict[str, Callable[[Sequence[Record]], str]] = {"order": _order, "flat": _flat, "park": _park, "cost": _cost}

"""docs/performance.md from records. Pure: records in, Markdown out."""

from __future__ import annotations

from collections.abc import Sequence

from bench.goals import goals
from bench.records import Record
from bench.tables import TITLES, tables

INTRODUCTION = """\
# Performance

Times are of this machine; what travels is the ratio to what was measured beside it, in turn, on one server. Each table
tells how many samples it stands on, and whether its rows were taken in one run. `make bench` takes the short set and
writes this page; `make bench-full` takes more samples and longer queues; one row alone is
`python -m bench order --variant enqueue`, and `python -m bench --list` tells what there is. The measurements are in
[bench](../bench/__main__.py).
"""


def render(records: Sequence[Record]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, _machines(records), "## Goals\n", goals(records)]
    for name, title in TITLES.items():
        own = [record for record in records if record.measurement == name]
        parts += [f"## {title}\n", tables(name, own) if own else "Not measured yet.\n"]
    return "\n".join(parts).rstrip() + "\n"


def _machines(records: Sequence[Record]) -> str:
    shown: dict[str, list[Record]] = {}
    for record in records:
        here = record.machine
        if here:
            text = (
                f"{here['cores']} cores, {here['memory_gb']} GB, {here['system']}, Python {here['python']}, Prefect "
                f"{here['prefect']}, ordered_queue {here['ordered_queue']}"
            )
            shown.setdefault(text, []).append(record)
    return "".join(f"Taken on {text}; {_when(own)}.\n" for text, own in shown.items())


def _when(records: Sequence[Record]) -> str:
    days = sorted({record.taken_at[:10] for record in records})
    loads = [record.machine["load_1min"] for record in records]
    dates = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{dates}; load of the machine before each measurement {min(loads)} to {max(loads)}"

"""What the demo prints at its end: one row a run, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.verdict import Outcome, RunRecord


def show(records: Sequence[RunRecord], outcome: Outcome, limit: int, console: Console) -> None:
    """Print the runs, the figures and the verdict."""
    console.print(runs_table(records))
    console.print(figures_table(outcome, limit))
    if not outcome.problems:
        console.print("[bold green]Order and limit held.[/]")
    for problem in outcome.problems:
        console.print(f"[bold red]Broken:[/] {escape(problem)}.", soft_wrap=True)


def runs_table(records: Sequence[RunRecord]) -> Table:
    """One row a run, by position; times in seconds since the first run was submitted."""
    table = Table(title="Seconds since the first run was submitted", title_justify="left")
    table.add_column("position", justify="right")
    table.add_column("run")
    table.add_column("submitter")
    for heading in ("submitted", "started", "ended"):
        table.add_column(heading, justify="right")
    first = min((record.submitted for record in records), default=None)
    for record in records:
        times = (_since(first, moment) for moment in (record.submitted, record.started, record.ended))
        table.add_row(str(record.position), record.name, record.submitter, *times)
    return table


def figures_table(outcome: Outcome, limit: int) -> Table:
    """The three figures that the demo is about."""
    idle = "-" if outcome.median_idle is None else f"{outcome.median_idle.total_seconds():.1f} s"
    table = Table.grid(padding=(0, 2))
    table.add_row("out-of-order pairs", str(outcome.out_of_order_pairs))
    table.add_row("most runs at once", f"{outcome.most_at_once} (limit {limit})")
    table.add_row("median idle time of a slot", idle)
    return table


def _since(first: datetime | None, moment: datetime | None) -> str:
    return "-" if first is None or moment is None else f"{(moment - first).total_seconds():.1f}"

"""The queue as people see it: a live table on a terminal, a line for each run that ends elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from prefect.client.schemas.objects import FlowRun
from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.serving import Serving
from demo.submitters import submitter_of
from ordered_queue.promotion import decide
from ordered_queue.runs import Standing

STYLES = {"waiting": "dim", "promoted": "yellow", "pending": "cyan", "running": "bold green", "completed": "green"}


@dataclass(frozen=True)
class Line:
    """One run at one moment.

    Attributes:
        name: the run's name.
        submitter: who parked it.
        stage: waiting, promoted, or the type of its state.
        position: 0-based place among the waiting runs; None if it does not wait.
    """

    name: str
    submitter: str
    stage: str
    position: int | None


Show = Callable[[list[Line]], None]


def picture(runs: Sequence[FlowRun], limit: int, now: datetime) -> list[Line]:
    """Every run in the given order, each with what the queue's own decision says of it."""
    verdicts = {verdict.run.id: verdict for verdict in decide(runs, limit, now).verdicts}
    lines: list[Line] = []
    for run in runs:
        verdict = verdicts[run.id]
        is_queued = verdict.standing in (Standing.WAITING, Standing.PROMOTED)
        state = "none" if run.state is None else run.state.type.value.lower()
        stage = verdict.standing.value if is_queued else state
        lines.append(Line(run.name, submitter_of(run), stage, verdict.position))
    return lines


@contextmanager
def shown(console: Console, serving: Serving) -> Generator[Show, None, None]:
    """Something to show pictures with, for as long as the block lasts."""
    title = f"Queue of {serving.deployment_name}, limit {serving.limit}"
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda lines: live.update(as_table(title, lines), refresh=True)
    else:
        console.print(f"{title}:")
        last = ""

        def show(lines: list[Line]) -> None:
            nonlocal last
            ended = f"{_count(lines, 'completed')} of {len(lines)} completed"
            if ended != last:
                console.print(f"  {ended}; {as_line(lines)}")
                last = ended

        yield show


def as_table(title: str, lines: list[Line]) -> Table:
    """The queue as a table, one row a run."""
    table = Table(title=title, title_justify="left")
    for heading in ("run", "submitter", "stage", "position"):
        table.add_column(heading, justify="right" if heading == "position" else "left")
    for line in lines:
        position = "" if line.position is None else str(line.position)
        table.add_row(line.name, line.submitter, line.stage, position, style=STYLES.get(line.stage, ""))
    return table


def as_line(lines: list[Line]) -> str:
    """The queue in a few words: who runs, who is promoted, who waits, in order."""
    parts: list[str] = []
    for stage in ("running", "pending", "cancelling", "promoted", "waiting"):
        names = [line.name for line in lines if line.stage == stage]
        if names:
            parts.append(f"{stage} {' '.join(names)}")
    return ", ".join(parts) or "nothing waits"


def _count(lines: list[Line], stage: str) -> int:
    return sum(line.stage == stage for line in lines)

"""What was measured, a JSON line each, so that the page can be written from the last run of each row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Key = tuple[str, str, str]

TRIAL = "trial"
"""The size that shows that a row works. Its figures are printed, and never on the page."""


@dataclass(frozen=True)
class Record:
    """One row of one table.

    Attributes:
        measurement: which table.
        variant: which row of it.
        case: which circumstances, such as "full queue".
        figures: counts, and lists of samples; their names carry the unit. ``skipped`` says why there are none.
        size: trial, short or full.
        taken_at: when, in ISO format.
        machine: what it was taken on.
        took_seconds: how long the row took, as it was.
        run: which call of the program took it. Only rows of one run were taken side by side.
    """

    measurement: str
    variant: str
    case: str
    figures: dict[str, Any]
    size: str = ""
    taken_at: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    took_seconds: float = 0.0
    run: str = ""

    @property
    def key(self) -> Key:
        """What a later run of the same row replaces."""
        return (self.measurement, self.variant, self.case)


def append(path: Path, record: Record) -> None:
    """Keep a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(record)) + "\n")


def read(path: Path) -> list[Record]:
    """All records, the oldest first; none if nothing was measured yet."""
    if not path.exists():
        return []
    return [Record(**json.loads(line)) for line in path.read_text().splitlines() if line]


def latest(records: Iterable[Record]) -> list[Record]:
    """The last record of each row that was no trial, in the order in which the rows first came.

    One that was skipped does not replace one that was measured.
    """
    last: dict[Key, Record] = {}
    for record in records:
        if record.size == TRIAL or ("skipped" in record.figures and record.key in last):
            continue
        last[record.key] = record
    return list(last.values())

"""All measurements, by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bench import cost, flat, order, park
from bench.records import Record


class Measurement(Protocol):
    """What a module of this folder has that measures something.

    Attributes:
        WHAT: it in words.
        VARIANTS: the names of its rows.
    """

    WHAT: str
    VARIANTS: Collection[str]

    def measure(self, variants: Sequence[str], size: str, folder: Path) -> Iterator[Record]:
        """Measure these rows, in an existing folder that goes afterwards; a record as each is done."""
        ...


MEASUREMENTS: dict[str, Measurement] = {module.NAME: module for module in (order, flat, park, cost)}

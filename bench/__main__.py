"""Choose what to measure, measure it, keep it, and write docs/performance.md from what was kept.

python -m bench --list
python -m bench order --variant enqueue
python -m bench park --size trial
python -m bench --all --write
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from bench.environment import ROOT, end_on_sigterm, isolated, machine
from bench.records import append, latest, read

RESULTS = ROOT / ".bench" / "results.jsonl"
PAGE = ROOT / "docs" / "performance.md"
SIZES = ("trial", "short", "full")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 2 for a name that is not known."""
    options = _parser().parse_args(arguments)
    end_on_sigterm()
    console = Console(highlight=False)
    with isolated() as folder:
        # Only now: Prefect reads its settings when it is imported.
        from bench.registry import MEASUREMENTS

        if options.list:
            for name, measurement in MEASUREMENTS.items():
                console.print(f"{name}: {measurement.WHAT}\n    {' '.join(measurement.VARIANTS)}")
            return 0
        names = list(MEASUREMENTS) if options.all else [options.measurement] if options.measurement else []
        for name in names:
            if name not in MEASUREMENTS:
                console.print(f"There is no measurement {name!r}: {', '.join(MEASUREMENTS)}.")
                return 2
            unknown = set(options.variant) - set(MEASUREMENTS[name].VARIANTS)
            if unknown:
                console.print(f"{name} has no variant {sorted(unknown)}: {', '.join(MEASUREMENTS[name].VARIANTS)}.")
                return 2
        run = datetime.now(timezone.utc).isoformat(timespec="seconds")
        for name in names:
            _measure(name, run, options, folder, console)
    if options.write:
        _write(options.results, options.page, console)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and print a table.")
    parser.add_argument("measurement", nargs="?", help="which; --list tells of all")
    parser.add_argument("--variant", action="append", default=[], help="only this row; may be given more than once")
    parser.add_argument("--size", choices=SIZES, default="short", help="a trial is printed, and never on the page")
    parser.add_argument("--all", action="store_true", help="every measurement")
    parser.add_argument("--write", action="store_true", help="write the page from the last run of each row")
    parser.add_argument("--list", action="store_true", help="say what can be measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures are kept")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page is written")
    return parser


def _measure(name: str, run: str, options: argparse.Namespace, folder: Path, console: Console) -> None:
    from bench.registry import MEASUREMENTS
    from bench.tables import tables

    measurement = MEASUREMENTS[name]
    variants = [each for each in measurement.VARIANTS if not options.variant or each in options.variant]
    here = machine()
    records = []
    begun = time.monotonic()
    for record in measurement.measure(variants, options.size, folder):
        ended = time.monotonic()
        taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
        took = round(ended - begun, 1)
        whole = replace(record, size=options.size, taken_at=taken, machine=here, took_seconds=took, run=run)
        begun = ended
        append(options.results, whole)
        records.append(whole)
        console.print(f"{name} {whole.variant} ({whole.case}): {whole.took_seconds:.0f} s")
    console.print(tables(name, records), soft_wrap=True)


def _write(results: Path, page: Path, console: Console) -> None:
    from bench.page import render

    page.write_text(render(latest(read(results))))
    console.print(f"Wrote {page}")


if __name__ == "__main__":
    sys.exit(main())

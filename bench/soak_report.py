"""The table of a soak."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from bench.soak_crew import Crew
from bench.soak_verdict import Verdict

BAD = (
    "lost",
    "parked twice",
    "executed twice",
    "revived",
    "out of order",
    "promoted beyond the limit",
    "promoted while it did not wait",
    "stuck",
    "still waiting",
    "crashed",
    "failed",
)
"""All of these must be 0."""

ROWS = (
    "submitted",
    "completed",
    "cancelled",
    "crashed by our kills",
    "left active by our kills",
    *BAD,
    "taken by a poller after its end",
    "overtaken by a race",
    "promotions",
)
TIMES = ("slot idle while a run waited", "promoted or due, to Pending")


def report(
    verdicts: Mapping[str, Verdict], crew: Crew, options: argparse.Namespace, seconds: float, drained: bool
) -> tuple[str, bool]:
    """The table as Markdown, and whether all that must be 0 is."""
    queues = list(verdicts)
    lines = [
        f"Soak: {options.minutes:g} min of kills, {seconds / 60:.1f} min with the drain; "
        f"{'drained' if drained else 'NOT drained in time'}.",
        "",
    ]
    if crew.cluster.without_redis:
        lines += [f"One API server only: {crew.cluster.without_redis}.", ""]
    lines += ["| | " + " | ".join(queues) + " | all |", "| --- |" + " --- |" * (len(queues) + 1)]
    for row in ROWS:
        counts = [verdicts[queue].counts[row] for queue in queues]
        name = f"**{row}**" if row in BAD else row
        lines.append(f"| {name} | " + " | ".join(str(count) for count in [*counts, sum(counts)]) + " |")
    for row in TIMES:
        longest = [verdicts[queue].longest.get(row, (timedelta(0), None))[0].total_seconds() for queue in queues]
        lines.append(f"| longest: {row} | " + " | ".join(f"{each:.1f} s" for each in [*longest, max(longest)]) + " |")
    kills = Counter(kill.what for kill in crew.kills)
    lines += [
        "",
        "Killed: " + (", ".join(f"{what} {count}" for what, count in sorted(kills.items())) or "nobody") + ".",
    ]
    lines.append(
        "Request errors seen: " + (", ".join(f"{what} {n}" for what, n in _errors(crew).items()) or "none") + "."
    )
    lines.append(f"Ended by themselves: {', '.join(crew.ended) or 'nobody'}.")
    for queue in queues:
        lines += _circumstances(queue, verdicts[queue], crew)
        lines += _disorder(verdicts[queue])
    return "\n".join(lines) + "\n", all(verdict.counts[row] == 0 for verdict in verdicts.values() for row in BAD)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items())) or "none"


def _errors(crew: Crew) -> Counter[str]:
    """Errors that a role could not get over by itself, and warnings of this package."""
    errors: Counter[str] = Counter()
    for journal in crew.folder.glob("*.journal"):
        for line in journal.read_text().splitlines():
            words = line.split()
            if words[0] == "error":
                errors[f"{words[1]} ({words[2]})"] += 1
    for log in crew.folder.glob("*.log"):
        count = sum(
            "WARNING" in line and "ordered_queue" in line for line in log.read_text(errors="replace").splitlines()
        )
        if count:
            errors["warnings of " + log.stem.split("-")[0]] += count
    return errors


def _circumstances(queue: str, verdict: Verdict, crew: Crew) -> list[str]:
    """What was killed around the longest idle time, so that the figure can be understood."""
    duration, since = verdict.longest.get(TIMES[0], (timedelta(0), None))
    if since is None:
        return []
    around = timedelta(seconds=30)
    before = [kill for kill in crew.kills if since - around < kill.when < since + duration]
    told = ", ".join(f"{kill.what} {(kill.when - since).total_seconds():+.0f} s" for kill in before) or "nothing"
    return [f"Killed around the longest idle slot of {queue} ({duration.total_seconds():.1f} s): {told}."]


def _disorder(verdict: Verdict) -> list[str]:
    """What is needed to understand each promotion out of order: all states of both runs."""
    lines: list[str] = []
    for run, when, passed in verdict.overtaken:
        lines += ["", f"Out of order: {run.key} was promoted at {when:%H:%M:%S.%f}, and {passed.run.key} waited."]
        for each in (run, passed.run):
            states = ", ".join(f"{entry.when:%H:%M:%S.%f} {entry.name}" for entry in each.states)
            lines.append(
                f"- {each.key}, parked at {each.parked:%H:%M:%S.%f}, made {each.created:%H:%M:%S.%f}: {states}"
            )
    return lines

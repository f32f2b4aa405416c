"""What a query plan says about how flow runs are read. Pure."""

from __future__ import annotations

from typing import Any


def runs_scans(plan: dict[str, Any]) -> list[str]:
    """The steps of a plan that read flow runs."""
    return [scan for scan in plan["scans"] if "flow_run" in scan]


def is_sequential(plan: dict[str, Any]) -> bool:
    """Whether a plan reads the whole table of flow runs."""
    return any(
        scan.startswith("Seq Scan on flow_run") or (scan.startswith("SCAN flow_run") and "USING" not in scan)
        for scan in plan["scans"]
    )


def abridged(statement: str) -> str:
    """A statement without its list of columns and parameters."""
    text = statement.split(" Query Parameters:")[0]
    columns = text.find(" FROM ")
    if text.startswith("SELECT") and columns >= 0:
        text = text[: len("SELECT")] + " …" + text[columns:]
    start = text.find("EXISTS (SELECT")
    if start >= 0:
        end = text.find(" FROM deployment", start)
        text = f"{text[:start]}EXISTS (SELECT …{text[end:]}" if end >= 0 else text
    return text if len(text) <= 320 else f"{text[:320]}…"

"""Figures as texts, and tables of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers stand on the right."""
    lines = ["| " + " | ".join(headings) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(headings) - 1)) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """A figure with as many digits as mean something."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(samples: Sequence[float], unit: str = "") -> str:
    """The median, and from where to where the samples go."""
    if not samples:
        return "none"
    middle = f"{number(median(samples))}{unit}"
    return middle if len(samples) == 1 else f"{middle} ({number(min(samples))} to {number(max(samples))})"

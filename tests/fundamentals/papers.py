"""What stands in the papers, taken apart for tests."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PAPERS = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))

_BLOCK = re.compile(
    r"(?:<!-- (?P<directive>[^\n]*?) -->\n)?(?P<indent> *)```(?P<language>\w+)\n(?P<body>.*?)\n(?P=indent)```",
    re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        paper: the file it is in.
        line: where it begins there, from 1.
        language: what stands behind the fence.
        directive: what the comment before it tells the tests to do with it; empty without one.
        text: what it holds.
    """

    paper: Path
    line: int
    language: str
    directive: str
    text: str

    def __str__(self) -> str:
        return f"{self.paper.relative_to(ROOT)}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """The name that its reader is told to save it under."""
        found = re.search(r"save: (\S+?)(?:;|$)", self.directive)
        return found.group(1) if found else None


def blocks(language: str) -> list[Block]:
    """All blocks of that language, in all papers, in order."""
    return [block for paper in PAPERS for block in _blocks_of(paper) if block.language == language]


def _blocks_of(paper: Path) -> list[Block]:
    text = paper.read_text()
    return [
        Block(
            paper,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            found["directive"] or "",
            textwrap.dedent(f"{found['indent']}{found['body'].removeprefix(found['indent'])}\n"),
        )
        for found in _BLOCK.finditer(text)
    ]


def shell_lines() -> list[str]:
    """All commands in shell blocks, in order."""
    return [line for block in blocks("shell") for line in block.text.splitlines() if line and not line.startswith("#")]


def table(paper: Path, first_heading: str) -> list[list[str]]:
    """The rows, without the heading, of the first table whose first column is headed so."""
    lines = iter(paper.read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {first_heading} |"):
            next(lines)
            break
    else:
        raise AssertionError(f"{paper.name} has no table headed {first_heading!r}")
    rows: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows

"""`ordered-queue init`: the nightly refresh, as files in the user's own project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ordered_queue.cli.failures import CommandFailed, Misused
from ordered_queue.cli.terminal import put

FILES = ("flows/refresh.py", "deployments.yaml", "crash-zombies.yaml")


def init(directory: Path, /, *, force: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Write the nightly refresh and its deployment into a project of yours.

    Writes flows/refresh.py, deployments.yaml and, for those who want Prefect to end runs whose heartbeats have stopped,
    crash-zombies.yaml: all or none.

    Args:
        directory: Where; made if it is not there.
        force: Overwrite what is there.
    """
    contents = {directory / name: _content(name) for name in FILES}
    # lexists: a dangling link is there too.
    there = [str(path) for path in contents if os.path.lexists(path)]
    if there and not force:
        raise CommandFailed(f"{' and '.join(there)} would be overwritten; nothing was written. --force overwrites.")
    if directory.exists() and not directory.is_dir():
        raise Misused(f"{str(directory)!r} is not a directory.")
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        put(f"Wrote {path}")
    put("Read deployments.yaml and set your work pool in it, or name it with --pool; then run, in that directory:")
    put("  prefect --no-prompt deploy --prefect-file deployments.yaml --all")
    put("crash-zombies.yaml is for those who have read of its risk in docs/operations.md.")


def _content(name: str) -> bytes:
    for root in _places():
        if (root / name).is_file():
            return (root / name).read_bytes()
    raise CommandFailed(f"This installation of ordered-queue lacks {name}. Install it again.")


def _places() -> list[Path]:
    """Where the files are: in a wheel inside the package, in a checkout beside it."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    # Beside an installed package lie other people's packages, and perhaps their `flows`.
    is_checkout = (checkout / "pyproject.toml").is_file()
    return [package / "_project", *([checkout] if is_checkout else [])]

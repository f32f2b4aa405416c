"""Where a measurement runs: a folder of its own, none of the caller's Prefect settings, and what machine this is."""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def isolated() -> Generator[Path, None, None]:
    """A folder that goes with the block; this process and all that it starts point there and nowhere else.

    Enter it before Prefect is imported: it reads its settings once.
    """
    with tempfile.TemporaryDirectory(prefix="ordered-queue-bench-") as name:
        folder = Path(name).resolve()
        for each in [each for each in os.environ if each.startswith("PREFECT_")]:
            del os.environ[each]
        (folder / "tmp").mkdir()
        os.environ.update(
            {
                "PREFECT_HOME": str(folder),
                "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                "PREFECT_LOGGING_TO_API_ENABLED": "false",
                "DO_NOT_TRACK": "1",
                # Prefect's runner makes a folder there.
                "TMPDIR": str(folder / "tmp"),
            }
        )
        yield folder


def end_on_sigterm() -> None:
    """Leave by an exception when told to end, so that all that was started ends with us."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def machine() -> dict[str, Any]:
    """Cores, memory and versions: what a figure was taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "prefect": version("prefect"),
        "ordered_queue": version("ordered-queue"),
        "load_1min": round(os.getloadavg()[0], 2),
    }

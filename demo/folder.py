"""The demo's own folder, and an environment that points into it and nowhere else."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from demo.stopping import let_finish


def make_folder(parent: Path) -> Path:
    """A fresh folder inside `parent`."""
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="demo-", dir=parent)).resolve()


def isolate(folder: Path) -> None:
    """Point this process and all that it starts at `folder`; forget the caller's own Prefect settings.

    Call it before Prefect is imported: it reads its settings once.
    """
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    temporary = folder / "tmp"
    temporary.mkdir()
    os.environ.update(
        {
            "PREFECT_HOME": str(folder),
            "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            # Prefect's runner makes a folder there.
            "TMPDIR": str(temporary),
        }
    )


@let_finish
def remove_folder(folder: Path) -> None:
    """Remove the folder and all that is in it."""
    shutil.rmtree(folder)

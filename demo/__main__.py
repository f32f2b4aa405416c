"""What `python -m demo` does first and last: the folder, the environment, the exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from demo.folder import isolate, make_folder, remove_folder
from demo.stopping import DemoFailed, Stopped, stop_on_signals

ROOT = Path(__file__).resolve().parent.parent
COULD_NOT_RUN = 2


def main() -> int:
    """Run the demo.

    Returns:
        0 if order and limit held, 1 if not, 2 if it could not run, 128 + the signal's number if it was stopped.
    """
    parser = argparse.ArgumentParser(prog="python -m demo", description="12 runs, two submitters, a limit of 2.")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs and the database")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="where to make the folder (default .demo)")
    options = parser.parse_args()
    console = Console(highlight=False)
    stop_on_signals()
    folder = make_folder(options.folder)
    is_wanted = True
    try:
        exit_code = _run(folder, console)
        is_wanted = options.keep or exit_code != 0
    except Stopped as stopped:
        console.print(f"Stopped by {stopped}.")
        exit_code = 128 + stopped.signal_number
        is_wanted = options.keep
    except DemoFailed as failure:
        console.print(f"[red]{escape(str(failure))}[/]", soft_wrap=True)
        exit_code = COULD_NOT_RUN
    finally:
        if is_wanted:
            console.print(f"Logs and database are kept in {escape(str(folder))}", soft_wrap=True)
        else:
            remove_folder(folder)
    return exit_code


def _run(folder: Path, console: Console) -> int:
    isolate(folder)
    # Only now: Prefect reads its settings when it is imported.
    from demo.run import run

    return run(folder, ROOT, console)


if __name__ == "__main__":
    sys.exit(main())

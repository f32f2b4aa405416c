"""The `ordered-queue` command.

Results go to standard output; whatever is meant for a human alone (progress, notes, questions, errors) to standard
error. Exit codes: 0 done, 1 failed, 2 misused, 3 `doctor` could not look, 130 interrupted, 141 the reader of the
output went away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from ordered_queue._version import __version__
from ordered_queue.cli.adopt import adopt
from ordered_queue.cli.doctor import doctor
from ordered_queue.cli.failures import CommandFailed, in_one_line
from ordered_queue.cli.listing import ls
from ordered_queue.cli.park import park
from ordered_queue.cli.project import init
from ordered_queue.cli.queue import cancel, sweep, unpark
from ordered_queue.cli.terminal import discard_output, prepare_streams, say
from ordered_queue.cli.watch import watch
from ordered_queue.errors import OrderedQueueError

INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""

app = App(
    name="ordered-queue",
    help="Keep the flow runs of a Prefect deployment in submission order behind its concurrency limit.",
    version=__version__,
    suppress_keyboard_interrupt=False,
)
for _command in (park, ls, sweep, cancel, unpark, adopt, watch, doctor, init):
    app.command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: what stands behind the program's name; None takes the process's own.
    """
    prepare_streams()
    try:
        code = _run(arguments)
        # Here rather than at exit, where a broken pipe could no longer be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    except OSError as error:
        discard_output()
        say(f"Error: standard output: {error.strerror}.")
        return 1
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except BrokenPipeError:
        raise  # It is an OSError.
    except KeyboardInterrupt as interrupt:
        # What it carries is what a command could say about how far it got.
        say(" ".join(["Interrupted.", *map(str, interrupt.args)]))
        return INTERRUPTED
    except CycloptsError as error:
        say(f"Error: {in_one_line(str(error))} `ordered-queue --help` and `ordered-queue COMMAND --help` say more.")
        return 2
    except (CommandFailed, OrderedQueueError, OSError) as error:
        failure = CommandFailed.of(error)
        say(f"Error: {in_one_line(str(failure))}")
        return failure.exit_code
    return code if isinstance(code, int) else 0

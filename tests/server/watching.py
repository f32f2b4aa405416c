"""A watcher in a process of its own."""

from tests.server.processes import running

NEVER = "86400"
"""So many seconds between sweeps that events alone must do."""


def watching(server, log_path, *options):
    """A watcher that follows the event stream."""
    command = ("-m", "ordered_queue.cli", "watch", *options)
    return running(server, log_path, *command, ready=b"following the event stream")

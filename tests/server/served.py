"""Flows as users write them, served by ``ordered_queue.serve`` in a process of its own."""

import os
import sys
import time

import anyio
from prefect import flow, task
from prefect.deployments import run_deployment

import ordered_queue


def end(how: str):
    """As it should, by an error, or without a word, as an out-of-memory kill ends a process."""
    if how == "fail":
        raise ValueError("as told")
    if how == "kill":
        os.kill(os.getpid(), 9)


@ordered_queue.queued
@flow
def sync_flow(seconds: float = 0.2, how: str = "complete"):
    time.sleep(seconds)
    end(how)


@ordered_queue.queued
@flow
async def async_flow(seconds: float = 0.2):
    await anyio.sleep(seconds)


ended = [ordered_queue.hand_over_on_end]
cancelled = [ordered_queue.hand_over_on_cancellation]


@flow(on_completion=ended, on_failure=ended, on_crashed=ended, on_cancellation=cancelled)
def by_hand(seconds: float = 0.2, how: str = "complete"):
    """The hooks as the README writes them out."""
    time.sleep(seconds)
    end(how)


@flow(on_completion=ended, on_failure=ended, on_crashed=ended, on_cancellation=cancelled)
async def by_hand_async(seconds: float = 0.2):
    await anyio.sleep(seconds)


@flow
def hands_over_itself():
    return ordered_queue.hand_over_slot()


@flow
async def hands_over_itself_async():
    return ordered_queue.hand_over_slot()


@flow
def hands_over_in_a_subflow():
    subflow_with_a_task()


@flow
def subflow_with_a_task():
    from_a_task()


@task
def from_a_task():
    return ordered_queue.hand_over_slot()


@flow
def without_hooks(how: str = "complete"):
    """Promotes nobody: whoever runs it has to."""
    end(how)


@flow
def starts_a_queued_run(deployment: str):
    """A caller outside the queue, whose run is the root of the queued one."""
    run_deployment(deployment, timeout=0)


FLOWS = {
    "one": (sync_flow, 1),
    "two": (sync_flow, 2),
    "three": (sync_flow, 3),
    "async": (async_flow, 1),
    "itself": (hands_over_itself, 1),
    "itself-async": (hands_over_itself_async, 1),
    "subflow": (hands_over_in_a_subflow, 1),
    "by-hand": (by_hand, 1),
    "recovered": (sync_flow, 1),
    "prompt": (without_hooks, 1),
    "called": (hands_over_itself, 1),
    "caller": (starts_a_queued_run, None),
}

NOT_YET = ("recovered", "prompt")
"""Served only by a process that is told to: until then nobody polls for them."""

QUERY_SECONDS = "SERVED_QUERY_SECONDS"
"""The environment variable that says how often to poll."""


def deployment(name: str):
    made, limit = FLOWS[name]
    return made.to_deployment(name=name, concurrency_limit=limit)


SILENT = "SERVED_SILENT"
"""The environment variable that, set to anything, leaves the starting message out."""


if __name__ == "__main__":
    served = [deployment(name) for name in sys.argv[1:] or FLOWS if sys.argv[1:] or name not in NOT_YET]
    served[0].work_pool_name = "there-is-none"  # Prefect's `serve` ignores it
    ordered_queue.serve(
        *served,
        print_starting_message=SILENT not in os.environ,
        query_seconds=float(os.environ.get(QUERY_SECONDS, "0.5")),
        limit=None,
    )

"""A flow that joins the queue: `@queued` above `@flow`, served with a concurrency limit.

Serve it with `python flows/example.py`, then park runs of "example/ordered".
"""

import time

from prefect import flow, get_run_logger

from ordered_queue import queued, serve


@queued
@flow
def example(item: str, seconds: float = 2.0) -> str:
    """Work on one item for some seconds."""
    get_run_logger().info("Working on %s", item)
    time.sleep(seconds)
    return f"{item} is done"


if __name__ == "__main__":
    serve(example.to_deployment(name="ordered", concurrency_limit=2))

"""Keep the flow runs of a Prefect deployment in submission order behind its concurrency limit."""

from importlib import import_module
from typing import TYPE_CHECKING

from ordered_queue._version import __version__
from ordered_queue.api import fill_free_slots, fill_free_slots_sync, park, park_sync, sweep, sweep_sync
from ordered_queue.errors import (
    DeploymentNotFound,
    DeploymentRefused,
    InvalidRun,
    InvalidSetting,
    OrderedQueueError,
    RequestFailed,
    ServerTooOld,
    SubmissionIncomplete,
)
from ordered_queue.hooks import hand_over_on_cancellation, hand_over_on_end, hand_over_slot, queued
from ordered_queue.ordering import PARK_DELAY, PARKED_TAG, parked_time
from ordered_queue.promotion import limit_of, runs_to_promote
from ordered_queue.runs import ParkedRun, QueueSwept, RunRequest

if TYPE_CHECKING:
    from ordered_queue.runner import serve
    from ordered_queue.watcher import watch

__all__ = [
    "PARKED_TAG",
    "PARK_DELAY",
    "DeploymentNotFound",
    "DeploymentRefused",
    "InvalidRun",
    "InvalidSetting",
    "OrderedQueueError",
    "ParkedRun",
    "QueueSwept",
    "RequestFailed",
    "RunRequest",
    "ServerTooOld",
    "SubmissionIncomplete",
    "__version__",
    "fill_free_slots",
    "fill_free_slots_sync",
    "hand_over_on_cancellation",
    "hand_over_on_end",
    "hand_over_slot",
    "limit_of",
    "park",
    "park_sync",
    "parked_time",
    "queued",
    "runs_to_promote",
    "serve",
    "sweep",
    "sweep_sync",
    "watch",
]

_WHEN_ASKED_FOR = {"serve": "ordered_queue.runner", "watch": "ordered_queue.watcher"}
"""What stands on more of Prefect than a submitter or a flow imports: each process of a run would wait for it."""


def __getattr__(name: str) -> object:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHEN_ASKED_FOR[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

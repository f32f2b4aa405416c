"""How a flow hands its slot over as it ends: state hooks, a decorator that installs them, and a call of its own.

Recommended are the hooks: ``on_completion``, ``on_failure`` and ``on_crashed`` run after the server has the final
state, so the slot is free. ``on_cancellation`` runs before it, so that hook goes on in the background until it is.

Nothing here raises into a flow or changes its result, and nothing adds more than 10 s to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar, cast
from uuid import UUID

from prefect import Flow, State
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.flows import FlowStateHook

from ordered_queue._drive import drive_sync
from ordered_queue._fills import WHOLE_FILL_SECONDS
from ordered_queue._reports import log_failure, report_fill
from ordered_queue._steps.effects import Steps
from ordered_queue._steps.ending import fill_after_end
from ordered_queue._steps.fill import Filled, fill
from ordered_queue.settings import load_settings

AnyFlow = TypeVar("AnyFlow", bound=Flow[..., Any])
Hook = FlowStateHook[..., Any]


def queued(flow: AnyFlow) -> AnyFlow:
    """Make a flow hand its slot over whenever a run of it ends. Goes above ``@flow``; twice is as good as once.

    Returns:
        the same flow, with the hooks of this module added behind its own.

    Raises:
        TypeError: this is no flow; `queued` stands below ``@flow``.
    """
    if not isinstance(cast("object", flow), Flow):
        raise TypeError(f"queued was given {flow!r}, which is no flow: write @queued above @flow, not below it.")
    # New lists: the flow's own may be those of the caller, who shares them with other flows.
    flow.on_completion_hooks = _with(hand_over_on_end, flow.on_completion_hooks)
    flow.on_failure_hooks = _with(hand_over_on_end, flow.on_failure_hooks)
    flow.on_crashed_hooks = _with(hand_over_on_end, flow.on_crashed_hooks)
    flow.on_cancellation_hooks = _with(hand_over_on_cancellation, flow.on_cancellation_hooks)
    return flow


def _with(hook: Hook, hooks: list[Hook]) -> list[Hook]:
    return [*hooks] if hook in hooks else [*hooks, hook]


def hand_over_on_end(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """State hook for ``on_completion``, ``on_failure`` and ``on_crashed``: promote the next waiting run.

    A run without a deployment (a subflow, a flow called by hand) has no slot to hand over.
    """
    deployment_id = flow_run.deployment_id
    if deployment_id is not None:
        _in_time(deployment_id, lambda: _fill(deployment_id, None))


def hand_over_on_cancellation(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """State hook for ``on_cancellation``: promote the next waiting run once this one is really Cancelled.

    The server still says Cancelling when this hook is called, and says Cancelled only after it returned. So it
    returns at once and a thread waits for that, up to 8 s, and fills then. Under a worker the server says Cancelled
    only after the hook's process has ended: there the thread leaves the wait to another process, once the main thread
    is done.
    """
    deployment_id = flow_run.deployment_id
    if deployment_id is None:
        return
    context = copy_context()

    def wait_and_fill() -> None:
        context.run(_guarded, deployment_id, lambda: fill_after_cancellation(flow_run.id, deployment_id))

    thread = threading.Thread(target=wait_and_fill, name="ordered-queue-cancellation", daemon=False)
    _guarded(deployment_id, lambda: _started(thread))


def hand_over_slot() -> int:
    """Promote the next waiting run, as the last act of a flow that does so itself.

    Works in sync and async flows, in a task or a subflow: it acts for the deployment run that they belong to, and
    that run does not count as occupying. A second call promotes nothing more.

    Returns:
        how many runs were promoted; 0 outside of a deployment's run, without a request. Never raises.
    """
    from prefect.runtime import flow_run as this_run

    try:
        if this_run.id is None:
            return 0
    except Exception as error:
        log_failure(None, error)
        return 0
    return _in_time(None, _hand_over)


def _hand_over() -> int:
    # Prefect may ask the server for these two, so they are read where the time is bounded.
    from prefect.runtime import deployment
    from prefect.runtime import flow_run as this_run

    deployment_id = deployment.id
    if deployment_id is None:
        return 0
    run_id = _run_that_holds_the_slot() or this_run.root_flow_run_id
    return 0 if run_id is None else _fill(UUID(str(deployment_id)), UUID(str(run_id)))


def _run_that_holds_the_slot() -> UUID | str | None:
    """The deployment's run that we are in, where it is known without asking the server.

    Not simply the root: a run that another flow started with ``run_deployment`` has that one as its root, which holds a
    slot of another deployment, or none.
    """
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and context.flow_run.deployment_id is not None:
        return context.flow_run.id
    # Set by runners and workers for the process of a deployment's run; its subflows and tasks inherit it.
    return os.environ.get("PREFECT__FLOW_RUN_ID")


def _fill(deployment_id: UUID, exclude_flow_run_id: UUID | None) -> int:
    filled = Filled()
    steps = fill(deployment_id, exclude_flow_run_id, load_settings().promoted_timeout, filled)
    return _driven(deployment_id, steps, filled)


def fill_after_cancellation(flow_run_id: UUID, deployment_id: UUID) -> int:
    """Wait for the run's end, here or in a process that outlives this one, then fill. Never raises."""
    filled = Filled()

    def steps() -> Steps[None]:
        timeout = load_settings().promoted_timeout
        if not (yield from fill_after_end(flow_run_id, deployment_id, timeout, filled, _is_process_ending)):
            _leave_to_another_process(flow_run_id, deployment_id)

    return _driven(deployment_id, steps(), filled)


def _is_process_ending() -> bool:
    """Whether only threads like ours still keep the process from exiting."""
    return not threading.main_thread().is_alive()


def _leave_to_another_process(flow_run_id: UUID, deployment_id: UUID) -> None:
    """Start what waits and fills after this process has ended.

    It stays in our process group, so that whoever stops the worker stops it too, and holds none of our streams: the
    worker reads those to their end.
    """
    command = [sys.executable, "-m", "ordered_queue.after_cancellation", str(flow_run_id), str(deployment_id)]
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603  # our own, no shell


def _driven(deployment_id: UUID, steps: Steps[None], filled: Filled) -> int:
    try:
        with _own_client() as client:
            drive_sync(client, steps)
    except Exception as error:
        log_failure(deployment_id, error)
    return report_fill(deployment_id, filled)


def _own_client() -> SyncPrefectClient:
    """A client that nobody else uses: the engine's own may be closed under us once the flow has ended."""
    return get_client(httpx_settings={"follow_redirects": True}, sync_client=True)


def _in_time(deployment_id: UUID | None, work: Callable[[], int]) -> int:
    """Do the work in a thread, and stop waiting for it before 10 s are over.

    A thread, because nothing else bounds a name look-up or a server that sends its answer a byte at a time.
    """
    results: list[int] = []
    context = copy_context()

    def run() -> None:
        results.append(context.run(_guarded, deployment_id, work))

    thread = threading.Thread(target=run, name="ordered-queue-hand-over", daemon=True)
    if not _guarded(deployment_id, lambda: _started(thread)):
        return 0
    thread.join(WHOLE_FILL_SECONDS)
    if thread.is_alive():
        log_failure(deployment_id, TimeoutError(f"the server took longer than {WHOLE_FILL_SECONDS} s"))
    return results[0] if results else 0


def _started(thread: threading.Thread) -> int:
    # Refused where a container allows no more of them, and while the interpreter is ending.
    thread.start()
    return 1


def _guarded(deployment_id: UUID | None, work: Callable[[], int]) -> int:
    try:
        return work()
    except Exception as error:
        log_failure(deployment_id, error)
        return 0

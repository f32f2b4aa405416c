"""What we use of Prefect beyond what it documents for others; each test is named after the thing that has changed."""

import inspect

import prefect
import pytest
from prefect.plugins import load_prefect_collections
from prefect.runner import Runner
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessWorker

import ordered_queue
from ordered_queue.worker import OrderedProcessWorker


def parameters_of(function):
    return list(inspect.signature(function).parameters)


def test_runner_get_and_submit_flow_runs_is_what_polls_once():
    poll = Runner._get_and_submit_flow_runs

    assert inspect.iscoroutinefunction(poll)
    assert parameters_of(poll) == ["self"]
    assert "_scheduled_run_poller" in inspect.getsource(poll)


def test_runner_started_and_stopping_say_whether_it_polls():
    runner = Runner()

    assert (runner.started, runner.stopping) == (False, False)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("start", ["self", "run_once", "with_healthcheck", "printer"]),
        ("setup", ["self"]),
        ("teardown", ["self", "exc_info"]),
        ("get_and_submit_flow_runs", ["self"]),
        ("run", ["self", "flow_run", "configuration", "task_status"]),
    ],
)
def test_process_worker_method_is_ours_to_override(name, parameters):
    theirs, ours = getattr(ProcessWorker, name), getattr(OrderedProcessWorker, name)

    assert parameters_of(theirs) == parameters_of(ours) == parameters
    assert inspect.iscoroutinefunction(theirs)


def test_worker_start_polls_through_get_and_submit_flow_runs():
    """Else Prefect's loop and ours could overlap."""
    assert "workload=self.get_and_submit_flow_runs" in inspect.getsource(ProcessWorker.start)


def test_worker_work_pool_raises_runtime_error_before_the_first_contact():
    with pytest.raises(RuntimeError):
        _ = OrderedProcessWorker(work_pool_name="any").work_pool


def test_the_entry_point_brings_the_worker_type():
    assert "ordered_queue" in load_prefect_collections()
    assert BaseWorker.get_worker_class_from_type("ordered-process") is OrderedProcessWorker
    assert BaseWorker.get_worker_class_from_type("process") is ProcessWorker


def test_serve_accepts_what_prefects_serve_accepts():
    theirs, ours = (inspect.signature(serve).parameters for serve in (prefect.serve, ordered_queue.serve))

    def passed_by_name(parameters):
        by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return {name: each.default for name, each in parameters.items() if each.kind in by_name}

    # The deployments by position, any option of the runner by name, and each named option with the same default.
    assert {each.kind for each in theirs.values()} == {each.kind for each in ours.values()}
    assert passed_by_name(theirs).items() <= passed_by_name(ours).items()

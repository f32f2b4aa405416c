"""The names that users import, and that an async name and its sync twin are one thing."""

import inspect
import subprocess
import sys

import pytest

import ordered_queue

# From the design: fixed, with these parameters.
FIXED = {
    "PARK_DELAY": None,
    "PARKED_TAG": None,
    "parked_time": ["base", "position"],
    "limit_of": ["deployment"],
    "runs_to_promote": ["runs", "limit", "now", "exclude_flow_run_id"],
    "fill_free_slots": ["client", "deployment_id", "exclude_flow_run_id"],
    "fill_free_slots_sync": ["client", "deployment_id", "exclude_flow_run_id"],
    "hand_over_slot": [],
    "park": ["deployment", "runs", "submission_key", "client"],
    "park_sync": ["deployment", "runs", "submission_key", "client"],
    "sweep": ["client", "deployment_id"],
    "sweep_sync": ["client", "deployment_id"],
}
TWINS = [("fill_free_slots", "fill_free_slots_sync"), ("park", "park_sync"), ("sweep", "sweep_sync")]


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_name_is_exported_with_its_parameters(name):
    assert name in ordered_queue.__all__
    if FIXED[name] is not None:
        parameters = list(inspect.signature(getattr(ordered_queue, name)).parameters)
        assert parameters[: len(FIXED[name])] == FIXED[name]


def test_what_is_exported_is_there_once():
    assert len(set(ordered_queue.__all__)) == len(ordered_queue.__all__)
    assert all(hasattr(ordered_queue, name) for name in ordered_queue.__all__)
    assert dir(ordered_queue) == sorted(ordered_queue.__all__)
    assert not hasattr(ordered_queue, "there_is_none")


IN_A_FLOWS_PROCESS = """
import sys
import prefect.engine, prefect.flow_engine
before = set(sys.modules)
import ordered_queue
print(*sorted(name for name in set(sys.modules) - before if name.startswith("prefect")))
"""


def test_a_flows_process_imports_no_more_of_prefect_because_of_us():
    """Each run's start would wait for it."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FLOWS_PROCESS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(("async_name", "sync_name"), TWINS)
def test_twins_have_the_same_parameters_and_the_same_words(async_name, sync_name):
    twin, other = getattr(ordered_queue, async_name), getattr(ordered_queue, sync_name)

    def described(function):
        return [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(function).parameters.values()
        ]

    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(other)
    assert described(twin) == described(other)
    assert twin.__doc__ == other.__doc__


@pytest.mark.parametrize("name", ordered_queue.__all__)
def test_every_public_name_says_what_it_is(name):
    thing = getattr(ordered_queue, name)
    if callable(thing):
        assert inspect.getdoc(thing)

import inspect
import threading
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect import flow

from ordered_queue import hand_over_on_cancellation, hand_over_on_end, hand_over_slot, queued


@pytest.mark.parametrize("hook", [hand_over_on_end, hand_over_on_cancellation])
def test_a_hook_has_the_parameter_names_that_the_runner_calls_it_by(hook):
    """The engine calls hooks by position, the Runner by keyword; other names fail there with a logged TypeError."""
    assert list(inspect.signature(hook).parameters) == ["flow", "flow_run", "state"]


def test_queued_adds_a_hook_for_every_end_behind_the_flows_own():
    def own(flow, flow_run, state):
        """A hook of the user's."""

    @queued
    @flow(on_completion=[own])
    def load():
        """A flow."""

    assert load.on_completion_hooks == [own, hand_over_on_end]
    assert load.on_failure_hooks == [hand_over_on_end]
    assert load.on_crashed_hooks == [hand_over_on_end]
    assert load.on_cancellation_hooks == [hand_over_on_cancellation]


def test_queued_twice_is_queued_once():
    @queued
    @queued
    @flow
    def load():
        """A flow."""

    assert load.on_completion_hooks == [hand_over_on_end]


def test_queued_leaves_the_callers_own_lists_alone():
    def own(flow, flow_run, state):
        """A hook of the user's."""

    mine = [own]

    @queued
    @flow(on_completion=mine, on_cancellation=mine)
    def load():
        """A flow."""

    assert load.on_completion_hooks == [own, hand_over_on_end]
    assert load.on_cancellation_hooks == [own, hand_over_on_cancellation]
    assert mine == [own]


def test_queued_below_flow_is_told_of():
    with pytest.raises(TypeError, match="above @flow"):

        @flow
        @queued
        def load():
            """A flow."""


def test_a_flow_ends_as_usual_when_no_thread_can_be_started(monkeypatch, caplog):
    def no_more_threads(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(uuid4()))
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    run = SimpleNamespace(id=uuid4(), deployment_id=uuid4())

    assert hand_over_slot() == 0
    hand_over_on_end(None, run, None)
    hand_over_on_cancellation(None, run, None)

    assert caplog.text.count("can't start new thread") == 3

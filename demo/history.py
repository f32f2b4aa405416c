"""What happened to a run, from the states that Prefect keeps of it."""

from __future__ import annotations

from datetime import datetime

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType

from demo.submitters import submitter_of
from demo.verdict import RunRecord


def read_record(client: SyncPrefectClient, run: FlowRun, position: int) -> RunRecord:
    """Read a run's states from the server and make its record."""
    states = sorted(client.read_flow_run_states(run.id), key=lambda state: state.timestamp)
    return record_of(run, position, states)


def record_of(run: FlowRun, position: int, states: list[State]) -> RunRecord:
    """The record of a run.

    Args:
        run: the run.
        position: its 0-based place among all runs, by parked time.
        states: every state that it had, oldest first.
    """
    # A run that found no slot went through Scheduled again: the slot that it ran on is the one taken after that.
    tries = [index for index, state in enumerate(states) if state.type == StateType.SCHEDULED]
    last_try = states[tries[-1] :] if tries else states
    return RunRecord(
        position=position,
        name=run.name,
        submitter=submitter_of(run),
        submitted=run.created or states[0].timestamp,
        slot_taken=_first(last_try, StateType.PENDING),
        started=_first(states, StateType.RUNNING),
        ended=states[-1].timestamp if states[-1].is_final() else None,
        final_state=str(states[-1].name),
    )


def _first(states: list[State], state_type: StateType) -> datetime | None:
    return next((state.timestamp for state in states if state.type == state_type), None)

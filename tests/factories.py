"""Runs and deployments made by hand: a factory with defaults, override what the test is about."""

from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

from prefect.client.schemas.objects import ConcurrencyOptions, FlowRun, State, StateDetails, StateType
from prefect.client.schemas.responses import DeploymentResponse, GlobalConcurrencyLimitResponse

from ordered_queue import PARK_DELAY, PARKED_TAG

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
FLOW_ID = UUID(int=1)


def a_run(
    number: int = 1,
    *,
    type: StateType = StateType.SCHEDULED,  # noqa: A002  # as Prefect names it
    name: str | None = None,
    due: datetime | None = None,
    since: datetime = NOW,
    expected: datetime | None = None,
    tags: tuple[str, ...] = (PARKED_TAG,),
    lease: bool = False,
    **fields,
) -> FlowRun:
    """A run with id `number`; only its state says what it is, as in an object built by hand."""
    details = StateDetails(scheduled_time=due, deployment_concurrency_lease_id=uuid4() if lease else None)
    state = State(id=UUID(int=number), type=type, name=name, timestamp=since, state_details=details)
    return FlowRun(
        id=UUID(int=number),
        name=f"run-{number}",
        flow_id=FLOW_ID,
        state=state,
        tags=list(tags),
        expected_start_time=expected,
        **fields,
    )


def parked(number: int, position: int | None = None, **fields) -> FlowRun:
    """A run parked at `position` (its number, unless said otherwise)."""
    due = NOW + PARK_DELAY + timedelta(milliseconds=number if position is None else position)
    return a_run(number, name="Parked", due=due, expected=due, **fields)


def bounced(number: int, *, parked_at: int, seconds: float = 20) -> FlowRun:
    """A run that Prefect sent back, to be due in `seconds`; first parked at position `parked_at`."""
    expected = NOW + PARK_DELAY + timedelta(milliseconds=parked_at)
    return a_run(number, name="AwaitingConcurrencySlot", due=NOW + timedelta(seconds=seconds), expected=expected)


def promoted(number: int, **fields) -> FlowRun:
    """A run that was promoted a second ago."""
    return a_run(number, name="Late", due=NOW - timedelta(seconds=1), since=NOW - timedelta(seconds=1), **fields)


def running(number: int, **fields) -> FlowRun:
    """A run that is running."""
    return a_run(number, type=StateType.RUNNING, **fields)


def a_deployment(
    limit: int | None = 1, *, is_active: bool = True, active_slots: int = 0, strategy: str | None = None, **fields
) -> DeploymentResponse:
    """A deployment with a limit of its own."""
    deployment_id = fields.pop("id", UUID(int=1000))
    concurrency_limit = (
        None
        if limit is None
        else GlobalConcurrencyLimitResponse(
            active=is_active, name=f"deployment:{deployment_id}", limit=limit, active_slots=active_slots
        )
    )
    options = ConcurrencyOptions(collision_strategy=strategy) if strategy else None
    return DeploymentResponse(
        id=deployment_id,
        flow_id=FLOW_ID,
        labels={},
        global_concurrency_limit=concurrency_limit,
        concurrency_options=options,
        **{"name": "nightly", **fields},
    )

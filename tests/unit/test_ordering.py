from datetime import datetime, timedelta, timezone
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.types import DateTime

from ordered_queue import PARK_DELAY, PARKED_TAG, parked_time
from ordered_queue.ordering import is_out_of_reach, order_key, standing, submission_base
from ordered_queue.runs import Standing
from tests.factories import FLOW_ID, NOW, a_run, bounced, parked, promoted, running

MILLISECOND = timedelta(milliseconds=1)


def test_parked_time_is_the_base_plus_the_delay_plus_a_millisecond_a_position():
    assert parked_time(NOW, 0) == NOW + PARK_DELAY
    assert parked_time(NOW, 7) == NOW + PARK_DELAY + 7 * MILLISECOND


def test_parked_time_is_a_full_delay_ahead_when_the_clocks_change_on_the_way():
    berlin = datetime(2026, 3, 15, 12, tzinfo=ZoneInfo("Europe/Berlin"))  # the clocks go forward on the 29th

    assert parked_time(berlin, 0) - berlin.astimezone(timezone.utc) == PARK_DELAY


def test_submissions_keep_their_order_through_the_hour_that_comes_twice():
    zone = ZoneInfo("Europe/Berlin")  # on 2026-10-25 half past two comes twice
    first, second = (datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=zone) for fold in (0, 1))
    tail = parked_time(submission_base(first, None, timedelta(0)), 999)

    assert parked_time(submission_base(second, tail, timedelta(0)), 0) - tail == timedelta(hours=1) - 999 * MILLISECOND


def test_parked_time_keeps_its_zone_when_the_base_is_one_of_prefects_own_datetimes():
    base = DateTime.fromisoformat(NOW.isoformat())

    assert parked_time(base, 3) == parked_time(NOW, 3)
    assert type(parked_time(base, 3)) is datetime


def test_parked_time_refuses_a_naive_base():
    with pytest.raises(ValueError, match="base has no time zone"):
        parked_time(datetime(2026, 3, 1), 0)  # noqa: DTZ001  # naive on purpose


def test_parked_time_refuses_a_negative_position():
    with pytest.raises(ValueError, match="counts from 0, this one is -1"):
        parked_time(NOW, -1)


def test_a_submission_starts_at_now_when_the_queue_is_old_or_empty():
    assert submission_base(NOW, None, timedelta(0)) == NOW
    assert submission_base(NOW, NOW + PARK_DELAY - timedelta(hours=1), timedelta(0)) == NOW


def test_a_submission_appends_behind_the_tail_when_the_submitters_clock_is_slow():
    tail = NOW + PARK_DELAY + timedelta(minutes=5)

    assert parked_time(submission_base(NOW, tail, timedelta(0)), 0) == tail + MILLISECOND


def test_a_submission_appends_behind_the_tail_when_the_clock_went_backwards():
    first = submission_base(NOW, None, timedelta(0))
    second = submission_base(NOW - timedelta(minutes=3), parked_time(first, 99), timedelta(0))

    assert parked_time(second, 0) == parked_time(first, 99) + MILLISECOND


@pytest.mark.parametrize(
    ("run", "work_queue_id", "expected"),
    [
        (parked(1), UUID(int=7), True),
        (promoted(1), UUID(int=7), True),
        (parked(1), None, False),
        (parked(1, work_queue_id=UUID(int=8)), UUID(int=7), False),
        (running(1), UUID(int=7), False),
        (a_run(name="AwaitingRetry", due=NOW, empirical_policy={"retry_type": "in_process"}), UUID(int=7), False),
    ],
    ids=["parked", "promoted", "served", "of another queue", "running", "retries in its process"],
)
def test_a_run_is_out_of_reach_if_it_needs_a_worker_and_belongs_to_no_work_queue(run, work_queue_id, expected):
    assert is_out_of_reach(run, work_queue_id) is expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (parked(1), Standing.WAITING),
        (a_run(name="Scheduled", due=NOW + PARK_DELAY), Standing.WAITING),
        (bounced(1, parked_at=0), Standing.WAITING),
        (promoted(1), Standing.PROMOTED),
        (a_run(name="Parked", due=NOW), Standing.PROMOTED),
        (a_run(name="Late", due=NOW + timedelta(seconds=2)), Standing.PROMOTED),
        (running(1), Standing.ACTIVE),
        (running(1, tags=()), Standing.ACTIVE),
        (a_run(type=StateType.PENDING), Standing.ACTIVE),
        (a_run(type=StateType.CANCELLING), Standing.ACTIVE),
        (a_run(tags=(), due=NOW), Standing.OUTSIDER),
        (a_run(tags=(), due=NOW + timedelta(hours=1)), Standing.NONE),
        (a_run(tags=(), name="AwaitingConcurrencySlot", due=NOW + timedelta(seconds=20)), Standing.NONE),
        (a_run(type=StateType.COMPLETED), Standing.NONE),
        (a_run(type=StateType.PAUSED), Standing.NONE),
        (FlowRun(flow_id=FLOW_ID), Standing.NONE),
    ],
)
def test_a_run_stands_where_its_state_and_tag_say(run, expected):
    assert standing(run, NOW) is expected


@pytest.mark.parametrize("tags", [(), (PARKED_TAG,)])
@pytest.mark.parametrize("due", [NOW - timedelta(seconds=1), NOW + timedelta(minutes=1)])
def test_a_run_that_retries_in_its_process_holds_its_slot_and_does_not_wait(tags, due):
    run = a_run(name="AwaitingRetry", due=due, tags=tags, run_count=1, empirical_policy={"retry_type": "in_process"})

    assert standing(run, NOW) is Standing.RETRYING


@pytest.mark.parametrize(
    "fields",
    [{"auto_scheduled": True, "name": "Scheduled"}, {"name": "AwaitingRetry"}, {"run_count": 1, "name": "Scheduled"}],
)
def test_a_run_that_was_put_in_the_future_on_purpose_is_not_pulled_forward(fields):
    assert standing(a_run(due=NOW + timedelta(hours=8), **fields), NOW) is Standing.NONE


def test_the_order_is_bounced_first_then_parked_then_by_id():
    first, second = bounced(9, parked_at=1, seconds=25), bounced(8, parked_at=2, seconds=5)
    third, twin, last = parked(3, position=5), parked(4, position=5), parked(1, position=6)

    assert sorted([last, twin, second, third, first], key=order_key) == [first, second, third, twin, last]


def test_a_bounced_copy_that_was_never_parked_stands_where_a_submission_of_its_moment_stands():
    copied = NOW + 5 * MILLISECOND
    copy = bounced(9, parked_at=0).model_copy(update={"created": copied, "expected_start_time": copied})
    before, after = parked(1, position=4), parked(2, position=6)

    assert sorted([after, copy, before], key=order_key) == [before, copy, after]


def test_the_order_refuses_a_naive_time():
    naive = datetime(2026, 3, 1)  # noqa: DTZ001  # naive on purpose
    run = a_run().model_copy(update={"next_scheduled_start_time": naive})

    with pytest.raises(ValueError, match=f"flow run {run.id} has no time zone"):
        order_key(run)

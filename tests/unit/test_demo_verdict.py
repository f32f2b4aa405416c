"""The demo's verdict: what it counts, and the exit code that follows."""

from datetime import datetime, timedelta, timezone

from prefect.client.schemas.objects import State, StateType

from demo.history import record_of
from demo.verdict import RunRecord, judge
from tests.factories import a_run

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
IN_ORDER = [(0, 3), (0, 3), (4, 7), (4, 7)]


def a_record(position: int, started: float | None, ended: float | None, final_state: str = "Completed") -> RunRecord:
    """A run that took its slot a second before it started; times in seconds."""
    taken, begun, over = (
        None if seconds is None else START + timedelta(seconds=seconds)
        for seconds in (None if started is None else started - 1, started, ended)
    )
    return RunRecord(position, f"run-{position}", "A", START, taken, begun, over, final_state)


def the_records(times):
    return [a_record(position, *each) for position, each in enumerate(times)]


def test_verdict_is_good_when_order_and_limit_held():
    outcome = judge(the_records(IN_ORDER), expected=4, limit=2)

    assert outcome.problems == ()
    assert outcome.exit_code == 0
    assert (outcome.out_of_order_pairs, outcome.most_at_once) == (0, 2)
    assert outcome.median_idle == timedelta(0)


def test_verdict_is_the_same_when_the_records_come_in_another_order():
    records = the_records(IN_ORDER)

    assert judge(records[::-1], expected=4, limit=2) == judge(records, expected=4, limit=2)


def test_verdict_is_broken_when_a_later_run_started_first():
    outcome = judge(the_records([(4, 7), (0, 3), (0, 3), (4, 7)]), expected=4, limit=2)

    assert outcome.problems == ("1 pairs of runs started out of order",)
    assert outcome.exit_code == 1


def test_verdict_lets_runs_change_places_when_they_are_closer_than_the_limit():
    outcome = judge(the_records([(0.2, 3), (0, 3), (4.2, 7), (4, 7)]), expected=4, limit=2)

    assert outcome.exit_code == 0


def test_verdict_is_broken_when_more_runs_than_the_limit_ran_at_once():
    outcome = judge(the_records([(0, 3), (0, 3), (2, 5), (4, 7)]), expected=4, limit=2)

    assert outcome.problems == ("3 runs ran at once; the limit is 2",)
    assert outcome.exit_code == 1


def test_verdict_is_broken_when_a_run_did_not_complete():
    records = [*the_records(IN_ORDER[:3]), a_record(3, None, None, "Parked")]

    outcome = judge(records, expected=4, limit=2)

    assert outcome.problems == ("3 of 4 runs completed (run-3 is Parked)",)
    assert outcome.exit_code == 1


def test_verdict_is_broken_when_a_run_is_missing():
    outcome = judge(the_records(IN_ORDER[:3]), expected=4, limit=2)

    assert outcome.problems == ("3 of 4 runs completed (the others are missing)",)
    assert outcome.exit_code == 1


def test_record_takes_the_slot_of_the_last_try_when_the_run_was_bounced():
    history = [
        (StateType.SCHEDULED, "Parked"),
        (StateType.SCHEDULED, "Late"),
        (StateType.PENDING, "Pending"),
        (StateType.SCHEDULED, "AwaitingConcurrencySlot"),
        (StateType.SCHEDULED, "Late"),
        (StateType.PENDING, "Pending"),
        (StateType.PENDING, "Submitting"),
        (StateType.RUNNING, "Running"),
        (StateType.COMPLETED, "Completed"),
    ]
    states = [
        State(type=type_, name=name, timestamp=START + timedelta(seconds=second))
        for second, (type_, name) in enumerate(history)
    ]

    record = record_of(a_run(1, created=START), 0, states)

    seconds = [(moment - START).total_seconds() for moment in (record.slot_taken, record.started, record.ended)]
    assert seconds == [5, 7, 8]
    assert record.final_state == "Completed"

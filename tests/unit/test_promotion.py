from datetime import datetime, timedelta

import pytest

from ordered_queue import limit_of, runs_to_promote
from ordered_queue.promotion import decide, promotion_times
from ordered_queue.runs import Decision, Reason, Standing, Verdict
from tests.factories import NOW, a_deployment, a_run, bounced, parked, promoted, running


def test_limit_is_that_of_the_global_limit():
    assert limit_of(a_deployment(3)) == 3


def test_limit_is_none_without_a_global_limit():
    assert limit_of(a_deployment(None)) is None


def test_limit_is_zero_when_it_is_inactive():
    assert limit_of(a_deployment(3, is_active=False)) == 0


def test_free_slots_go_to_the_earliest():
    assert runs_to_promote([parked(3), parked(1), parked(2)], 2, NOW) == [parked(1), parked(2)]


def test_everything_is_promoted_in_order_without_a_limit():
    assert runs_to_promote([parked(2), running(9), parked(1)], None, NOW) == [parked(1), parked(2)]


@pytest.mark.parametrize("limit", [0, 1])
def test_nothing_is_promoted_when_no_slot_is_free(limit):
    assert runs_to_promote([running(9), parked(1)], limit, NOW) == []


def test_nothing_is_promoted_when_the_limit_was_lowered_below_what_runs():
    assert runs_to_promote([running(8), running(9), parked(1)], 1, NOW) == []


def test_a_promoted_run_holds_a_slot():
    assert runs_to_promote([promoted(1), parked(2)], 1, NOW) == []


def test_an_outsider_that_is_due_holds_a_slot():
    assert runs_to_promote([a_run(7, tags=(), due=NOW), parked(2)], 1, NOW) == []


def test_the_run_that_hands_over_does_not_count():
    assert runs_to_promote([running(9), parked(1)], 1, NOW, running(9).id) == [parked(1)]


def test_a_second_hand_over_promotes_nothing_more():
    assert runs_to_promote([running(9), promoted(1), parked(2)], 1, NOW, running(9).id) == []


def test_a_bounced_run_goes_before_number_two_when_an_outsider_stole_its_slot():
    head = bounced(1, parked_at=1)

    assert runs_to_promote([parked(2), head, a_run(7, tags=(), due=NOW)], 1, NOW) == []
    assert runs_to_promote([parked(2), head], 1, NOW) == [head]


def test_a_run_that_was_read_twice_counts_once_and_as_occupying():
    runs = [parked(1), parked(2), promoted(1)]

    assert runs_to_promote(runs, 1, NOW) == []
    assert runs_to_promote(runs, 2, NOW) == [parked(2)]


def test_a_naive_clock_is_refused():
    with pytest.raises(ValueError, match="now has no time zone"):
        runs_to_promote([], 1, datetime(2026, 3, 1))  # noqa: DTZ001  # naive on purpose


def test_a_decision_says_why_for_each_run():
    done = a_run(5, type="COMPLETED")

    assert decide([running(9), running(8), parked(2), parked(1), done], 2, NOW, running(9).id) == Decision(
        limit=2,
        occupied=1,
        verdicts=(
            Verdict(running(9), Standing.ACTIVE, Reason.HANDING_OVER),
            Verdict(running(8), Standing.ACTIVE, Reason.OCCUPYING),
            Verdict(done, Standing.NONE, Reason.NOT_QUEUED),
            Verdict(parked(1), Standing.WAITING, Reason.SLOT_FREE, 0),
            Verdict(parked(2), Standing.WAITING, Reason.NO_SLOT_FREE, 1),
        ),
    )


def test_runs_promoted_together_get_strictly_increasing_times_none_in_the_future():
    times = promotion_times(NOW, 3)

    assert times == [NOW - timedelta(microseconds=2), NOW - timedelta(microseconds=1), NOW]
    assert promotion_times(NOW, 0) == []

from datetime import timedelta

from prefect.client.schemas.objects import StateType

from ordered_queue.counting import not_taken, zombies
from tests.factories import NOW, a_run, parked, running

HALF_AN_HOUR = timedelta(minutes=30)
LONG_AGO = NOW - timedelta(minutes=40)


def test_a_due_run_stops_counting_when_nobody_takes_it_for_too_long():
    late = a_run(1, name="Late", due=LONG_AGO, since=LONG_AGO)
    outsider = a_run(2, tags=(), due=LONG_AGO, since=LONG_AGO)

    assert not_taken([late, outsider], NOW, HALF_AN_HOUR) == {
        late.id: timedelta(minutes=40),
        outsider.id: timedelta(minutes=40),
    }


def test_a_due_run_goes_on_counting_while_a_slow_pool_may_still_start_it():
    slow = a_run(1, name="Late", due=NOW - timedelta(minutes=15), since=NOW - timedelta(minutes=15))

    assert not_taken([slow], NOW, HALF_AN_HOUR) == {}


def test_a_run_that_just_came_due_counts_when_it_was_parked_a_month_ago():
    own_time = a_run(1, name="Parked", due=NOW - timedelta(minutes=1), since=NOW - timedelta(days=30))

    assert not_taken([own_time, parked(2), running(3, since=LONG_AGO)], NOW, HALF_AN_HOUR) == {}


def test_the_oldest_holder_is_a_zombie_when_the_counter_is_short_by_one():
    zombie = running(1, since=LONG_AGO, lease=True)
    alive = running(2, since=NOW - timedelta(minutes=20), lease=True)

    assert zombies([alive, zombie], NOW, active_slots=1) == {zombie.id: timedelta(minutes=40)}


def test_pending_and_cancelling_runs_can_be_zombies_too():
    pending = a_run(1, type=StateType.PENDING, since=LONG_AGO, lease=True)
    cancelling = a_run(2, type=StateType.CANCELLING, since=LONG_AGO, lease=True)

    assert set(zombies([pending, cancelling], NOW, active_slots=0)) == {pending.id, cancelling.id}


def test_nothing_is_a_zombie_before_its_lease_can_have_lapsed():
    assert zombies([running(1, since=NOW - timedelta(minutes=4), lease=True)], NOW, active_slots=0) == {}


def test_nothing_is_a_zombie_when_the_counter_leaked_upwards():
    assert zombies([running(1, since=LONG_AGO, lease=True)], NOW, active_slots=4) == {}


def test_a_run_from_before_the_limit_holds_no_lease_and_counts():
    assert zombies([running(1, since=LONG_AGO)], NOW, active_slots=0) == {}


def test_the_run_that_hands_over_is_no_zombie_and_its_slot_is_not_the_zombies():
    zombie = running(1, since=LONG_AGO, lease=True)
    me = running(2, since=LONG_AGO - timedelta(hours=1), lease=True)

    assert set(zombies([zombie, me], NOW, active_slots=1, exclude_flow_run_id=me.id)) == {zombie.id}
    assert zombies([me], NOW, active_slots=0, exclude_flow_run_id=me.id) == {}

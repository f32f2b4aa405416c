"""The decision against a simple model, for any runs, limits and clocks."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.objects import FlowRun, StateType

from ordered_queue import runs_to_promote
from ordered_queue.ordering import order_key, standing
from ordered_queue.promotion import promotion_times
from ordered_queue.runs import Standing
from tests.factories import NOW, a_run, bounced, parked, promoted, running

MAKERS = st.sampled_from(
    [
        parked,
        lambda number: bounced(number, parked_at=number % 5, seconds=5 + number % 7),
        promoted,
        running,
        lambda number: running(number, tags=()),
        lambda number: a_run(number, type=StateType.PENDING),
        lambda number: a_run(number, type=StateType.CANCELLING),
        lambda number: a_run(number, type=StateType.COMPLETED),
        lambda number: a_run(number, type=StateType.PAUSED),
        lambda number: a_run(number, tags=(), due=NOW - timedelta(seconds=number % 3)),
        lambda number: a_run(number, tags=(), due=NOW + timedelta(hours=1)),
        lambda number: a_run(number, name="AwaitingRetry", due=NOW + timedelta(seconds=9), run_count=1),
        lambda number: a_run(
            number, name="AwaitingRetry", due=NOW, run_count=1, empirical_policy={"retry_type": "in_process"}
        ),
    ]
)


@st.composite
def queues(draw) -> list[FlowRun]:
    numbers = draw(st.lists(st.integers(1, 60), unique=True, max_size=25))
    return [draw(MAKERS)(number) for number in numbers]


LIMITS = st.none() | st.integers(0, 12)


def waiting_in(runs):
    return sorted((run for run in runs if standing(run, NOW) is Standing.WAITING), key=order_key)


def occupied_by(runs):
    return sum(standing(run, NOW).is_occupying for run in runs)


@given(queues(), LIMITS)
def test_the_decision_is_the_head_of_the_queue_as_far_as_slots_are_free(runs, limit):
    waiting = waiting_in(runs)
    free = len(waiting) if limit is None else max(0, limit - occupied_by(runs))

    assert runs_to_promote(runs, limit, NOW) == waiting[:free]


@given(queues(), LIMITS, st.randoms())
def test_the_decision_does_not_depend_on_the_order_of_its_input_or_on_what_is_there_twice(runs, limit, random):
    shuffled = [*runs, *random.sample(runs, len(runs) // 2)]
    random.shuffle(shuffled)

    assert runs_to_promote(shuffled, limit, NOW) == runs_to_promote(runs, limit, NOW)


@given(queues(), st.integers(0, 12))
def test_the_limit_is_never_exceeded_by_promotion(runs, limit):
    chosen = runs_to_promote(runs, limit, NOW)

    assert len(chosen) <= max(0, limit - occupied_by(runs))


@given(queues(), LIMITS)
def test_deciding_again_once_the_chosen_are_promoted_chooses_nothing(runs, limit):
    chosen = {run.id for run in runs_to_promote(runs, limit, NOW)}
    after = [promoted(run.id.int) if run.id in chosen else run for run in runs]

    assert runs_to_promote(after, limit, NOW) == []


@given(queues(), st.integers(1, 12))
def test_a_higher_limit_only_ever_adds_at_the_end(runs, limit):
    fewer, more = runs_to_promote(runs, limit - 1, NOW), runs_to_promote(runs, limit, NOW)

    assert more[: len(fewer)] == fewer


@given(queues(), st.integers(1, 12), st.data())
def test_excluding_a_run_frees_at_most_its_own_slot(runs, limit, data):
    if not runs:
        return
    me = data.draw(st.sampled_from(runs))
    without, with_me = runs_to_promote(runs, limit, NOW), runs_to_promote(runs, limit, NOW, me.id)

    assert len(with_me) <= len(without) + 1
    assert me not in with_me


@given(st.integers(0, 200))
def test_promotion_times_increase_strictly_and_end_now(count):
    times = promotion_times(NOW, count)

    assert times == sorted(set(times))
    assert all(time <= NOW for time in times)
    assert len(times) == count

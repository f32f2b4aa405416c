"""A submitter dies after any of its requests; its key completes what it began. (A kill: test_submitter_killed.py)"""

from datetime import timedelta

import pytest

from ordered_queue import park_sync
from ordered_queue._drive import drive_sync
from ordered_queue._steps.park import Parking, Submission
from ordered_queue._steps.park import park as park_steps
from tests.interruption import Crash, crashing_after
from tests.server.test_park import numbers, waiting_numbers

REQUESTS = 16
"""Three to begin with; for each of two chunks two that create it and four that fill; the first fill promotes a run."""


@pytest.mark.parametrize("requests", range(REQUESTS))
def test_a_submission_that_died_after_any_request_is_completed_by_its_key(deploy, client, requests):
    queue = deploy(limit=1)
    submission = Submission(
        queue.id, numbers(105), "big", "1", timedelta(0), timedelta(minutes=1), timedelta(hours=1), lambda runs: None
    )
    with pytest.raises(Crash):
        drive_sync(client, crashing_after(park_steps(submission, Parking()), requests))
    park_sync(queue.id, numbers(2, start=900), client=client)

    runs = park_sync(queue.id, numbers(105), submission_key="big", client=client)

    assert len({run.flow_run_id for run in runs}) == 105
    assert [run.parked_time for run in runs] == sorted(run.parked_time for run in runs)
    assert [number for number in waiting_numbers(client, queue) if number < 900] == list(range(105))
    assert queue.states(runs[:1]) in (["Late"], ["Parked"])

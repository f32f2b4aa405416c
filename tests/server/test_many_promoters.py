"""Eight processes fill one queue at the same moment, again and again."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from ordered_queue.embedded import stop
from tests.conftest import ROOT, on_both_databases

pytestmark = on_both_databases

PROMOTERS = 8
ROUNDS = 30
LIMIT = 3


@pytest.fixture(scope="module")
def promoters(server):
    with ExitStack() as stack:
        processes = []
        for _ in range(PROMOTERS):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.server.promoter"],
                env=dict(server.env),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            stack.callback(stop, process)
            processes.append(process)
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes


def fill_at_once(promoters, deployment_id):
    """How many runs each of them promoted."""
    for process in promoters:
        process.stdin.write(f"{deployment_id}\n")
        process.stdin.flush()
    return [int(process.stdout.readline()) for process in promoters]


def test_eight_promoters_promote_each_run_once_in_order_and_fill_every_slot(deploy, client, promoters):
    queue = deploy(limit=LIMIT)
    runs = queue.park(LIMIT + ROUNDS + 3)
    promoted = LIMIT

    for round_number in range(ROUNDS):
        freed = round_number % LIMIT + 1
        for run in runs[promoted - LIMIT : promoted - LIMIT + freed]:
            queue.cancel(run)
        freed = min(freed, len(runs) - promoted)

        assert sum(fill_at_once(promoters, queue.id)) == freed
        promoted += freed
        states = queue.states(runs)
        assert states[: promoted - LIMIT] == ["Cancelled"] * (promoted - LIMIT)
        assert states[promoted - LIMIT : promoted] == ["Late"] * LIMIT
        assert set(states[promoted:]) <= {"Parked"}
        if promoted == len(runs):
            break

    assert all(queue.history(run).count("Late") == 1 for run in runs[:promoted])

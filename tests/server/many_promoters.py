"""Several processes fill one queue at the same moment, round after round: what the test and the bench share."""

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager

from ordered_queue.embedded import stop
from tests.conftest import ROOT

PROMOTERS = 8
LIMIT = 3
ROUNDS = 50
RUNS = LIMIT + ROUNDS * 2 + 3
MOST_TRIES = 10


@contextmanager
def processes(server, count, module, *arguments):
    """So many processes of a module, each ready."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=dict(server.env),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            stack.callback(stop, process)
            started.append(process)
        for process in started:
            assert process.stdout.readline() == "ready\n"
        yield started


def promoters(server):
    return processes(server, PROMOTERS, "tests.server.promoter")


def under_write_load(server, deployment_id):
    return processes(server, 1, "tests.server.writer", str(deployment_id))


def fill_at_once(promoting, deployment_id):
    """How many runs all of them promoted, and how many of their fills came to their end."""
    for process in promoting:
        process.stdin.write(f"{deployment_id}\n")
        process.stdin.flush()
    answers = [process.stdout.readline().split() for process in promoting]
    return sum(int(promoted) for promoted, _ in answers), sum(end == "whole" for _, end in answers)


def play(queue, promoting, rounds=ROUNDS):
    """Free slots, have all fill at once, look; again and again. The violations of each kind, and how many rounds.

    A slot left free counts if any of the fills came to its end: on a busy server all may be cut short.
    """
    seen = Counter()
    runs = queue.park(RUNS)
    promoted = LIMIT
    for number in range(rounds):
        freed = min(number % LIMIT + 1, len(runs) - promoted)
        for run in runs[promoted - LIMIT : promoted - LIMIT + freed]:
            queue.cancel(run)
        told, whole = fill_at_once(promoting, queue.id)
        for _ in range(MOST_TRIES):
            if whole:
                break
            seen["rounds again, since every fill was cut short"] += 1
            more, whole = fill_at_once(promoting, queue.id)
            told += more
        promoted += freed
        states = queue.states(runs)
        late = [place for place, state in enumerate(states) if state == "Late"]
        wanted = list(range(promoted - LIMIT, promoted))
        seen["rounds"] += 1
        seen["fills cut short by a busy server"] += PROMOTERS - whole
        seen["limit exceeded"] += len(late) > LIMIT
        seen["slot left free"] += len(late) < LIMIT
        seen["out of order"] += len(late) == LIMIT and late != wanted
        seen["brought back"] += bool(set(states[: promoted - LIMIT]) - {"Cancelled"})
        seen["told wrongly"] += told != freed and whole == PROMOTERS
        if late != wanted:
            return seen  # the next round would count the same again
    seen["promoted twice"] += sum(queue.history(run).count("Late") != 1 for run in runs[:promoted])
    return seen


VIOLATIONS = ("limit exceeded", "slot left free", "out of order", "brought back", "told wrongly", "promoted twice")

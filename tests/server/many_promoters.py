"""Several processes fill one queue at the same moment, round after round: what the test and the bench share."""

import multiprocessing
from collections import Counter
from contextlib import ExitStack, contextmanager

from tests.server.promoter import promote
from tests.server.writer import write

FORKS = multiprocessing.get_context("forkserver")
"""One process imports Prefect, which takes two seconds, and is forked for each that is needed."""

FORKS.set_forkserver_preload([promote.__module__, write.__module__])

PROMOTERS = 8
LIMIT = 3
ROUNDS = 50
RUNS = LIMIT + ROUNDS * 2 + 3
MOST_TRIES = 10


@contextmanager
def processes(count, target, *arguments):
    """Connections to so many processes that execute a function, each ready."""
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            ours, theirs = FORKS.Pipe()
            process = FORKS.Process(target=target, args=(theirs, *arguments))
            process.start()
            stack.callback(end, process)
            theirs.close()
            connections.append(stack.enter_context(ours))
        assert [connection.recv() for connection in connections] == ["ready"] * count
        yield connections


def end(process):
    process.kill()
    process.join()


def promoters(server):
    return processes(PROMOTERS, promote, server.api_url)


def under_write_load(server, deployment_id):
    return processes(1, write, server.api_url, deployment_id)


def fill_at_once(promoting, deployment_id):
    """How many runs all of them promoted, and how many of their fills came to their end."""
    for connection in promoting:
        connection.send(deployment_id)
    answers = [connection.recv() for connection in promoting]
    return sum(promoted for promoted, _ in answers), sum(whole for _, whole in answers)


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
        cut_short = PROMOTERS - whole
        for _ in range(MOST_TRIES):
            if whole:
                break
            seen["rounds again, since every fill was cut short"] += 1
            more, whole = fill_at_once(promoting, queue.id)
            told += more
            cut_short += PROMOTERS - whole
        promoted += freed
        states = queue.states(runs)
        late = [place for place, state in enumerate(states) if state == "Late"]
        wanted = list(range(promoted - LIMIT, promoted))
        seen["rounds"] += 1
        seen["fills cut short by a busy server"] += cut_short
        seen["limit exceeded"] += len(late) > LIMIT
        seen["slot left free"] += len(late) < LIMIT
        seen["out of order"] += len(late) == LIMIT and late != wanted
        seen["brought back"] += bool(set(states[: promoted - LIMIT]) - {"Cancelled"})
        # One that is cut short may have promoted a run without hearing of it.
        seen["told wrongly"] += told != freed and not cut_short
        if late != wanted:
            return seen  # the next round would count the same again
    seen["promoted twice"] += sum(queue.history(run).count("Late") != 1 for run in runs[:promoted])
    return seen


VIOLATIONS = ("limit exceeded", "slot left free", "out of order", "brought back", "told wrongly", "promoted twice")

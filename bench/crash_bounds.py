"""How long a slot stays idle after each fault: with hooks, with the watcher, with neither.

    python -m bench.crash_bounds --repeat 3 --slow

One API server on PostgreSQL, one runner each for a flow with hooks and one without. *Hooks*: no watcher is there.
*Watcher*: no hook is there. *Refresh*: neither is there, but `deployments.yaml` is deployed, and a worker polls for it.
A figure is the time from the fault (where something comes back: from its being back) to the promotion of the next run,
by the state's own time; the runner's poll and the process's start come after it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from bench.crash_place import Place, Queue, placed
from bench.environment import end_on_sigterm

ONE_SHOT = "only at the next end or submission, or by a sweep"
NIGHTLY = "at the next night: up to 24 h"
NO_SLOT = "it held no slot"

Measure = Callable[[Place, Queue], float]


@dataclass(frozen=True)
class Row:
    """A fault, and what is known or measured of it.

    Attributes:
        fault: what happens.
        hooks: how it is measured with hooks alone, or what holds without a measurement.
        watcher: the same with the watcher alone.
        refresh: the same with the nightly refresh and its triggers alone.
        is_slow: it takes minutes: done once, if asked for.
    """

    fault: str
    hooks: Measure | str
    watcher: Measure | str
    refresh: Measure | str
    is_slow: bool = False


def seconds_until_promotion(queue: Queue, run: object, since: datetime, most_seconds: float = 120) -> float:
    """From a moment to the run's promotion; 0 if that came before.

    Raises:
        AssertionError: it did not come.
    """
    promoted = queue.promotion_of(run, most_seconds)
    return max(0.0, (promoted - since).total_seconds())


def now() -> datetime:
    return datetime.now(timezone.utc)


def flow_killed(place: Place, queue: Queue) -> float:
    (_, second), pid = queue.run_one_of_two(600)
    os.kill(pid, 9)
    return seconds_until_promotion(queue, second, now())


def flow_and_runner_killed(place: Place, queue: Queue) -> float:
    (_, second), _ = queue.run_one_of_two(600)
    place.kill_runner(queue)
    since = now()
    place.start_runner(queue)
    return seconds_until_promotion(queue, second, since, 1200)


def submitter_killed(place: Place, queue: Queue) -> float:
    """Its run is parked, and nobody fills for it."""
    by_hand = place.queue_by_hand(1)
    (run,) = by_hand.deployed.create_waiting(1)
    return seconds_until_promotion(by_hand, run, now())


def watcher_killed(place: Place, queue: Queue) -> float:
    """The slot is freed while no watcher is there; the figure counts from when it is started again."""
    by_hand = place.queue_by_hand(1)
    first, second = by_hand.deployed.park(2)
    place.stop_watcher(kill=True)
    by_hand.deployed.cancel(first)
    since = now()
    place.start_watcher()
    return seconds_until_promotion(by_hand, second, since)


def hooks_without_the_watcher(place: Place, queue: Queue) -> float:
    """As whenever a run ends."""
    (_, second), _ = queue.run_one_of_two(1)
    first_end = queue.end_of_first()
    return seconds_until_promotion(queue, second, first_end)


def api_server_restarted(place: Place, queue: Queue) -> float:
    (_, second), _ = queue.run_one_of_two(3)
    place.api.kill()
    time.sleep(5)  # the run ends meanwhile
    place.api.start()
    return seconds_until_promotion(queue, second, now())


def database_restarted(place: Place, queue: Queue) -> float:
    """The run goes on meanwhile, and ends when all is back."""
    (_, second), _ = queue.run_one_of_two(10)
    place.restart_database(absent_seconds=2)
    place.supervise(queue)
    return seconds_until_promotion(queue, second, queue.end_of_first())


def database_away_as_a_run_ends(place: Place, queue: Queue) -> float:
    """The server answers 500, which Prefect's engine takes for final: the run's end is never told."""
    (_, second), _ = queue.run_one_of_two(1)
    place.restart_database(absent_seconds=5)
    since = now()
    place.supervise(queue)
    return seconds_until_promotion(queue, second, since, 1200)


def database_away_and_asked_again(place: Place, queue: Queue) -> float:
    """The same, where Prefect's client takes 500 for something to try again."""
    place.kill_runner(queue)
    place.start_runner(queue, PREFECT_CLIENT_RETRY_EXTRA_CODES="500")
    try:
        return database_away_as_a_run_ends(place, queue)
    finally:
        place.kill_runner(queue)  # the next one is without


def server_away_during_the_last_hook(place: Place, queue: Queue) -> float:
    """The server has the run's end; then it is gone before anybody could promote."""
    by_hand = place.queue_by_hand(1)
    first, second = by_hand.deployed.park(2)
    by_hand.deployed.start(first)
    by_hand.deployed.finish(first)
    place.api.kill()
    place.api.start()
    return seconds_until_promotion(by_hand, second, now())


def cancelled_while_promoted(place: Place, queue: Queue) -> float:
    by_hand = place.queue_by_hand(1)
    first, second = by_hand.deployed.park(2)
    since = now()
    by_hand.deployed.cancel(first)
    return seconds_until_promotion(by_hand, second, since)


def cancelled_while_running(place: Place, queue: Queue) -> float:
    """Some of it is Prefect's: it ends the process first.

    A runner that was there while the server was away may not hear of cancellations any more (Prefect 3.9.1).
    """
    place.kill_runner(queue)
    place.start_runner(queue)
    (first, second), _ = queue.run_one_of_two(600)
    since = now()
    queue.deployed.cancel(first)
    return seconds_until_promotion(queue, second, since)


def limit_raised(place: Place, queue: Queue) -> float:
    by_hand = place.queue_by_hand(1)
    _, second = by_hand.deployed.park(2)
    since = now()
    by_hand.deployed.set_limit(2)
    return seconds_until_promotion(by_hand, second, since)


ROWS = [
    Row("a run ends (no fault)", hooks_without_the_watcher, hooks_without_the_watcher, NIGHTLY),
    Row("flow process killed", flow_killed, flow_killed, flow_killed),
    Row("flow and runner killed together", ONE_SHOT, flow_and_runner_killed, NIGHTLY, is_slow=True),
    Row("submitter killed before it filled", ONE_SHOT, submitter_killed, NIGHTLY),
    Row("watcher killed, then started", "no harm: as without a fault", watcher_killed, "no watcher there"),
    Row("API server restarted as a run ends", api_server_restarted, api_server_restarted, NIGHTLY),
    Row("database restarted in the middle of a run", database_restarted, database_restarted, NIGHTLY),
    Row("database away as a run ends", ONE_SHOT, database_away_as_a_run_ends, NIGHTLY, is_slow=True),
    Row("the same, with `PREFECT_CLIENT_RETRY_EXTRA_CODES=500`", *[database_away_and_asked_again] * 2, NIGHTLY),
    Row("server away during the last hook", ONE_SHOT, server_away_during_the_last_hook, NIGHTLY),
    Row("cancelled while parked", NO_SLOT, NO_SLOT, NO_SLOT),
    Row("cancelled while promoted", ONE_SHOT, cancelled_while_promoted, cancelled_while_promoted),
    Row("cancelled while running", *[cancelled_while_running] * 3),
    Row("limit raised", ONE_SHOT, limit_raised, NIGHTLY),
]


def measured(place: Place, queue: Queue, row: Row, how: Measure | str, options: argparse.Namespace) -> str:
    """A cell of the table."""
    if isinstance(how, str):
        return how
    if row.is_slow and not options.slow:
        return "not measured (--slow)"
    if not row.fault.startswith(options.only):
        return "left out"
    figures: list[float] = []
    for _ in range(1 if row.is_slow else options.repeat):
        place.supervise(queue)
        try:
            figures.append(how(place, queue))
        except AssertionError as error:
            print(f"{row.fault}: {error}", file=sys.stderr)
        queue.clear()
    print(f"{row.fault}, {queue.name}: {[round(figure, 2) for figure in figures]}", file=sys.stderr)
    if not figures:
        return "NOT PROMOTED"
    missed = "" if len(figures) == options.repeat or row.is_slow else f", {options.repeat - len(figures)} MISSED"
    low, high = min(figures), max(figures)
    return (f"{low:.1f} s" if len(figures) == 1 else f"{low:.1f} to {high:.1f} s") + missed


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.crash_bounds", description="Idle slots after faults.")
    parser.add_argument("--repeat", type=int, default=3, help="how often to measure each (3)")
    parser.add_argument("--slow", action="store_true", help="also what takes minutes, once")
    parser.add_argument("--only", default="", help="the beginning of a fault's name")
    options = parser.parse_args(given)
    end_on_sigterm()
    cells: dict[str, list[str]] = {row.fault: [] for row in ROWS}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ordered-queue-bounds-"))
        place = stack.enter_context(placed(Path(folder)))
        for row in ROWS:
            cells[row.fault].append(measured(place, place.queues["short"], row, row.hooks, options))
        plain = place.queues["plain"]
        place.start_watcher()
        for row in ROWS:
            cells[row.fault].append(measured(place, plain, row, row.watcher, options))
        place.stop_watcher()
        place.start_refresh()
        for row in ROWS:
            cells[row.fault].append(measured(place, plain, row, row.refresh, options))
    print(f"Load average of the machine meanwhile: {os.getloadavg()[2]:.1f}\n")
    print("| fault | hooks alone | watcher alone | refresh alone |\n| --- | --- | --- | --- |")
    for row in ROWS:
        print(f"| {row.fault} | {' | '.join(cells[row.fault])} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

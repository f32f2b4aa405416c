"""What is kept of measurements, and the page that is written from it."""

from dataclasses import replace

from bench.goals import goals
from bench.markdown import number, spread, table
from bench.page import render
from bench.records import TRIAL, Record, append, latest, read
from bench.scans import is_sequential

MACHINE = {
    "cores": 2,
    "memory_gb": 8,
    "system": "Linux x86_64",
    "python": "3.12.0",
    "prefect": "3.9.1",
    "ordered_queue": "0.1.0",
    "load_1min": 0.5,
}


def a_record(measurement="order", variant="enqueue", case="full queue", size="short", **figures) -> Record:
    return Record(measurement, variant, case, figures, size, "2026-03-01T12:00:00+00:00", MACHINE)


def a_round(**fields):
    return {
        "runs": 20,
        "completed": 20,
        "out_of_order_pairs": 0,
        "pairs": 171,
        "idle_seconds": [0.2, 0.4],
        "launch_seconds": [3.0],
        "makespan_seconds": 60.0,
        "requests_per_run": 20.0,
        "requests": {"GET /api/deployments/{id}": 20, "GET /api/rare": 1},
        "states_per_run": 6.0,
        **fields,
    }


RECORDS = [
    a_record(rounds=[a_round(out_of_order_pairs=80, makespan_seconds=127.7)]),
    a_record(variant="serve-1s-watch", rounds=[a_round()]),
    a_record(variant="ordered-process", skipped="it is not installed"),
    *(
        a_record(
            "flat",
            "postgresql",
            f"{depth} waiting, promotes one",
            depth=depth,
            did="promotes one",
            requests=[5],
            sent_bytes=900,
            received_bytes=2_000,
            milliseconds=[milliseconds],
            by_request={"head": {"median": 9.0}},
        )
        for depth, milliseconds in ((10, 40.0), (1_000, 41.0), (100_000, 60.0))
    ),
    a_record(
        "flat",
        "postgresql",
        "plans behind 100000",
        depth=100_000,
        plans=[{"statement": "SELECT flow_run.id FROM flow_run", "ms": 0.2, "plan": "", "scans": ["x on flow_run"]}],
    ),
    *(
        a_record("park", "sqlite", way, rounds=[{"asked": 100, "seconds": 1.0, "there": 100, "runs_per_second": rate}])
        for way, rate in (("park", 90.0), ("one loop", 30.0), ("bare bulk", 100.0))
    ),
    a_record("cost", "import", "in a script", milliseconds=[9.0], megabytes=[2.0], whole_megabytes=[99.0]),
    a_record("cost", "watcher", "nothing waits", requests_per_hour=60, seconds=120),
]


def test_a_record_is_read_as_it_was_kept(tmp_path):
    for record in RECORDS:
        append(tmp_path / "folder" / "results.jsonl", record)

    assert read(tmp_path / "folder" / "results.jsonl") == RECORDS
    assert read(tmp_path / "none.jsonl") == []


def test_the_last_record_of_a_row_counts_and_a_trial_does_not():
    first, second = a_record(rounds=[1]), a_record(rounds=[2])
    trial = a_record(size=TRIAL, rounds=[3])
    skipped = a_record(skipped="not installed")

    assert latest([first, second, trial, skipped]) == [second]
    assert latest([skipped]) == [skipped]


def test_a_figure_has_as_many_digits_as_mean_something():
    assert [number(each) for each in (0.123, 3.0, 12.34, 1234.5)] == ["0.12", "3", "12.3", "1,234"]
    assert spread([2.0, 1.0, 3.0], " s") == "2 s (1 to 3)"
    assert spread([2.0]) == "2"


def test_a_table_is_markdown():
    assert table(["a", "b"], [["x|y", 1]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"


def test_a_goal_stands_beside_its_figure_whether_it_was_reached_or_not():
    lines = goals(RECORDS).splitlines()

    def line(beginning):
        return next(line for line in lines if line.startswith(f"| {beginning}"))

    assert line("out-of-order pairs").endswith("| 0 of 171; native 80 of 171 | yes |")
    assert line("a slot's idle time, watcher").endswith("| p50 0.300 s, p95 0.400 s, 2 times | yes |")
    assert line("a slot's idle time, our own worker").endswith("| not measured |  |")
    assert line("a hand-over behind").endswith(
        "| 1.50 times: 40 ms behind 10, 41 ms behind 1,000, 60 ms behind 100,000 | **no** |"
    )
    assert line("parking, read back").endswith("| 0.90 times (sqlite) | yes |")
    assert line("parking against").endswith("| 3.00 times (sqlite) | yes |")
    assert line("sequential scans").endswith("| 0 of 1 statements | yes |")


def test_the_page_tells_the_machine_every_table_and_what_was_left_out():
    page = render(RECORDS)

    assert (
        "Taken on 2 cores, 8 GB, Linux x86_64, Python 3.12.0, Prefect 3.9.1, ordered_queue 0.1.0; 2026-03-01; load "
        in page
    )
    assert "Not one run" not in page
    assert "| native ENQUEUE, Prefect's `serve`, poll 10 s | 1 x 20 | 80 of 171 | 0.30 s | 0.40 s |" in page
    assert "| `GET /api/deployments/{id}` | 1.0 | 1.0 |" in page
    assert "/api/rare" not in page
    assert "ordered-process: left out, it is not installed." in page
    assert "None of 1 statements about flow runs scans that table sequentially." in page
    assert "| sqlite: one loop | 1 x 100 | 1 s | 30 | 3 | 100 |" in page
    assert "| watcher, nothing waits | 60 requests an hour | 120 s, scaled |" in page
    assert page.endswith("\n")
    assert not page.endswith("\n\n")


def test_rows_of_different_runs_are_not_passed_off_as_taken_side_by_side():
    first, second = a_record(rounds=[a_round()]), a_record(variant="serve-1s", rounds=[a_round()])

    page = render([replace(first, run="monday"), replace(second, run="tuesday")])

    assert "**Not one run**" in page
    assert "enqueue (full queue) in monday; serve-1s (full queue) in tuesday" in page


def test_a_run_that_did_not_complete_is_told_of():
    assert "| 1 x 20, 2 did not complete |" in render([a_record(rounds=[a_round(completed=18)])])


def test_the_page_can_be_written_when_nothing_was_measured():
    assert render([]).count("Not measured yet.") == 4


def test_a_plan_is_sequential_when_it_reads_all_flow_runs():
    assert is_sequential({"scans": ["Seq Scan on flow_run"]})
    assert is_sequential({"scans": ["SCAN flow_run"]})
    assert not is_sequential({"scans": ["Seq Scan on deployment", "SCAN flow_run USING INDEX a", "SEARCH flow_run"]})

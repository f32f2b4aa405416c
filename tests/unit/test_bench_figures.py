"""What the measurements compute from samples, and what they read from logs."""

from datetime import datetime, timedelta, timezone

import pytest

from bench.figures import RunHistory, order_figures, percentile, summary
from bench.load import POSTGRESQL_DIALECT, SQLITE_DIALECT, Copies, statements
from bench.plans import postgresql_plans
from bench.traffic import kind_of, kind_of_path, requests_in

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = "0b5dc5e2-6ff1-4a4b-8d4b-0d9a2d1f9a10"


def a_history(pending: float, running: float, ended: float) -> RunHistory:
    """A run that went through the queue; times in seconds."""
    states = [("SCHEDULED", "Parked", 0.0), ("PENDING", "Pending", pending)]
    states += [("RUNNING", "Running", running), ("COMPLETED", "Completed", ended)]
    return RunHistory(tuple((kind, name, START + timedelta(seconds=seconds)) for kind, name, seconds in states))


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 2), (75, 3), (95, 4), (100, 4)])
def test_a_percentile_is_the_sample_of_nearest_rank(percent, expected):
    assert percentile([4, 2, 1, 3], percent) == expected


@pytest.mark.parametrize(("samples", "percent"), [([], 50), ([1.0], 101)])
def test_a_percentile_is_refused_when_there_is_none(samples, percent):
    with pytest.raises(ValueError, match="No "):
        percentile(samples, percent)


def test_a_summary_tells_the_median_and_the_spread():
    assert summary([1.0, 2.0, 9.0]) == {"median": 2.0, "p5": 1.0, "p95": 9.0, "samples": 3}


def test_order_figures_tell_order_idle_time_and_makespan_of_a_queue():
    figures = order_figures([a_history(1, 2, 5), a_history(5.5, 6, 9), a_history(10, 11, 14)], 1, START)

    assert figures["out_of_order_pairs"] == 0
    assert figures["pairs"] == 3
    assert figures["idle_seconds"] == [0.5, 1.0]
    assert figures["launch_seconds"] == [1.0, 0.5, 1.0]
    assert figures["makespan_seconds"] == 14
    assert figures["states_per_run"] == 4
    assert figures["completed"] == 3


def test_order_figures_count_pairs_that_are_at_least_the_limit_apart():
    backwards = [a_history(1 + n, 1.5 + n, 1.9 + n) for n in (4, 3, 2, 1)]

    assert order_figures(backwards, 1, START)["out_of_order_pairs"] == 6
    assert order_figures(backwards, 2, START)["out_of_order_pairs"] == 3
    assert order_figures(backwards, 2, START)["pairs"] == 3


def test_requests_are_counted_by_kind_and_those_of_the_onlooker_are_not():
    log = f"""
12:00:00.000 | INFO    | uvicorn.access - 127.0.0.1:1 - "POST /api/flow_runs/{RUN}/set_state HTTP/1.1" 201
127.0.0.1:2 - "POST /api/flow_runs/{RUN}/set_state HTTP/1.1" 201
127.0.0.1:2 - "GET /api/flow_run_states/?flow_run_id={RUN} HTTP/1.1" 200
127.0.0.1:2 - "POST /api/flow_runs/filter?by=bench HTTP/1.1" 200
127.0.0.1:2 - "GET /dashboard HTTP/1.1" 200
127.0.0.1:3 - "WebSocket /api/events/out" [accepted]
"""

    assert requests_in(log) == {"POST /api/flow_runs/{id}/set_state": 2, "GET /api/flow_run_states/": 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/deployments/name/my-flow/mine?a=b", "/api/deployments/name/{name}"),
        ("/api/work_pools/mine/get_scheduled_flow_runs", "/api/work_pools/{name}/get_scheduled_flow_runs"),
        (f"/api/flow_runs/{RUN}", "/api/flow_runs/{id}"),
    ],
)
def test_a_path_is_told_without_ids_and_names(path, expected):
    assert kind_of_path(path) == expected


@pytest.mark.parametrize(
    ("method", "path", "asked", "expected"),
    [
        ("GET", f"/api/deployments/{RUN}", None, "deployment"),
        ("POST", "/api/flow_runs/filter", {"next_scheduled_start_time": {"after_": "x"}, "tags": {}}, "head"),
        ("POST", "/api/flow_runs/filter", {"next_scheduled_start_time": {"before_": "x", "after_": "x"}}, "due"),
        ("POST", "/api/flow_runs/filter", {"state": {}}, "active"),
        ("POST", f"/api/flow_runs/{RUN}/set_state", None, "promote"),
        ("GET", "/api/admin/version", None, "GET /api/admin/version"),
    ],
)
def test_a_request_of_a_fill_is_known_by_what_it_asks_for(method, path, asked, expected):
    assert kind_of(method, path, asked and {"flow_runs": asked}) == expected


@pytest.mark.parametrize("dialect", [SQLITE_DIALECT, POSTGRESQL_DIALECT], ids=["sqlite", "postgresql"])
def test_a_copy_of_a_run_keeps_what_is_not_its_own(dialect):
    made = statements(dialect, Copies(RUN, 5, 1), ["id", "state_id", "flow_id"], ["id", "flow_run_id", "message"])

    assert made[2].startswith('INSERT INTO "flow_run" ("id", "state_id", "flow_id") SELECT numbers.run_id, ')
    assert made[2].endswith(f'flow_run."flow_id" FROM "flow_run", numbers WHERE flow_run.id = \'{RUN}\'')
    assert 'SELECT numbers.state_id, numbers.run_id, flow_run_state."message"' in made[1]


def test_plans_are_read_from_the_log_when_they_are_about_flow_runs():
    log = (
        "2026-03-01 12:00:00 UTC [7] LOG:  duration: 3.5 ms  plan:\n"
        "\tQuery Text: SELECT flow_run.id \n\tFROM flow_run \n\tWHERE flow_run.id = $1\n"
        "\tQuery Parameters: $1 = 'a'\n"
        "\tIndex Scan using pk_flow_run on flow_run  (cost=0.42..8.44 rows=1 width=82)\n"
        "\t  Index Cond: (id = $1)\n"
        "2026-03-01 12:00:00 UTC [7] LOG:  duration: 0.5 ms  plan:\n"
        "\tQuery Text: SELECT 1 FROM block_type\n"
        "\tSeq Scan on block_type  (cost=0.00..1.05 rows=1 width=16)\n"
    )

    (plan,) = postgresql_plans(log)

    assert plan["ms"] == 3.5
    assert plan["scans"] == ["Index Scan using pk_flow_run on flow_run"]
    assert plan["statement"].startswith("SELECT flow_run.id FROM flow_run WHERE flow_run.id = $1")

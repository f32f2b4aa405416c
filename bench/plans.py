"""What the databases' planners make of the requests of a fill."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import asyncpg
from prefect.server import models
from prefect.server.database import provide_database_interface
from prefect.server.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.server.schemas.sorting import FlowRunSort
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings
from sqlalchemy import event

from bench.servers import SQLITE, Database, LogWindow
from bench.traffic import Exchange

LOG_SECONDS = 1.0

_ENTRY = re.compile(r"duration: (?P<ms>[\d.]+) ms  plan:\n(?P<text>(?:\t.*\n?)+)")
_FIRST_NODE = re.compile(r"^.*\(cost=", re.MULTILINE)
_SCAN = re.compile(r"(?:Seq|Index|Index Only|Bitmap Heap|Bitmap Index) Scan.*? on \S+")
_READS_RUNS = re.compile(r"\bflow_run\b")

Plan = dict[str, Any]


def plans_of(on: Database, turn: Callable[[], list[Exchange]]) -> list[Plan]:
    """How the database answers what a fill asks, each with statement, plan, the scans in it, and milliseconds.

    On PostgreSQL the plans are those that were executed, of every statement that touches flow runs, as the server logs
    them. On SQLite, which logs nothing, Prefect's own query is made once more in this process, and explained.

    Args:
        on: the database; a Prefect server runs on it.
        turn: makes the requests, and says what they were.
    """
    if on.kind == SQLITE:
        return anyio.run(_sqlite_plans, on, turn())
    anyio.run(_set_explaining, on, "0")
    window = LogWindow.open_at_end(on.postgresql_folder / "log")
    turn()
    time.sleep(LOG_SECONDS)
    log = window.read()
    anyio.run(_set_explaining, on, "-1")
    return postgresql_plans(log)


def postgresql_plans(log: str) -> list[Plan]:
    """The plans of statements about flow runs in PostgreSQL's log, each statement once, the slowest first."""
    slowest: dict[str, Plan] = {}
    for found in _ENTRY.finditer(log):
        text = "\n".join(line.removeprefix("\t") for line in found["text"].splitlines())
        node = _FIRST_NODE.search(text)
        if node is None:
            continue
        statement = " ".join(text[: node.start()].removeprefix("Query Text: ").split())
        plan = text[node.start() :].rstrip()
        milliseconds = float(found["ms"])
        if not _READS_RUNS.search(statement) or slowest.get(statement, {"ms": -1})["ms"] >= milliseconds:
            continue
        slowest[statement] = {"statement": statement, "ms": milliseconds, "plan": plan, "scans": _SCAN.findall(plan)}
    return sorted(slowest.values(), key=lambda plan: -plan["ms"])


async def _set_explaining(on: Database, least_milliseconds: str) -> None:
    connection = await asyncpg.connect(host=str(on.postgresql_folder), user="postgres", database="postgres")
    try:
        for statement in (
            f"ALTER SYSTEM SET auto_explain.log_min_duration = {least_milliseconds}",
            "ALTER SYSTEM SET auto_explain.log_analyze = on",
            "SELECT pg_reload_conf()",
        ):
            await connection.execute(statement)
        await anyio.sleep(LOG_SECONDS)
    finally:
        await connection.close()


async def _sqlite_plans(on: Database, exchanges: Sequence[Exchange]) -> list[Plan]:
    bodies = {exchange.kind: exchange.body for exchange in exchanges if (exchange.body or {}).get("flow_runs")}
    with temporary_settings(updates={PREFECT_API_DATABASE_CONNECTION_URL: on.url}):
        db = provide_database_interface()
        engine = await db.engine()
        seen: list[tuple[str, Any]] = []

        def note(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            seen.append((statement, parameters))

        event.listen(engine.sync_engine, "before_cursor_execute", note)
        plans = [await _explained(db, kind, body, seen) for kind, body in bodies.items()]
        event.remove(engine.sync_engine, "before_cursor_execute", note)
        await engine.dispose()
    return sorted(plans, key=lambda plan: -plan["ms"])


async def _explained(db: Any, kind: str, body: dict[str, Any], seen: list[tuple[str, Any]]) -> Plan:
    async with db.session_context() as session:
        seen.clear()
        begun = time.perf_counter()
        await models.flow_runs.read_flow_runs(
            session=session,
            flow_run_filter=FlowRunFilter.model_validate(body["flow_runs"]),
            deployment_filter=DeploymentFilter.model_validate(body["deployments"]) if body.get("deployments") else None,
            offset=body["offset"],
            limit=body["limit"],
            sort=FlowRunSort(body["sort"]),
        )
        milliseconds = (time.perf_counter() - begun) * 1000
        statement, parameters = next(each for each in seen if "FROM flow_run" in each[0])
        connection = await session.connection()
        rows = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).fetchall()
    steps = [row[3] for row in rows]
    return {
        "statement": f"{kind}: {' '.join(statement[statement.index('FROM flow_run') :].split())}",
        "ms": round(milliseconds, 1),
        "plan": "\n".join(steps),
        "scans": [step for step in steps if step.startswith(("SCAN", "SEARCH"))],
    }

"""Put rows into Prefect's database, a great many, as copies of real ones.

A real run that waits and a real one that has ended are made through the API. Their rows are then copied by the database
itself, each with a state of its own, so that whatever columns a version of Prefect has are as it fills them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import asyncpg

from bench.servers import SQLITE, Database

NUMBER = "numbers.number"


@dataclass(frozen=True)
class Dialect:
    """How a database says what a copy needs.

    Attributes:
        numbers: makes the table ``numbers``: number from 1 on, run_id, state_id.
        drop: removes it.
        shifted: a column's time, moved by so many milliseconds, given as SQL.
        scheduled: the state's details with another scheduled time.
        columns: lists the columns of a table.
    """

    numbers: str
    drop: str
    shifted: Callable[[str, str], str]
    scheduled: Callable[[str], str]
    columns: str


def _sqlite_shifted(column: str, milliseconds: str) -> str:
    # Prefect writes six decimals, and compares times as texts.
    return f"strftime('%Y-%m-%d %H:%M:%f', {column}, (({milliseconds}) / 1000.0) || ' seconds') || '000'"


_SQLITE_UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8' || "
    "substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)

SQLITE_DIALECT = Dialect(
    numbers=(
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE counted(number) AS "
        "(SELECT 1 UNION ALL SELECT number + 1 FROM counted WHERE number < {count}) "
        f"SELECT number, {_SQLITE_UUID} AS run_id, {_SQLITE_UUID} AS state_id FROM counted"
    ),
    drop="DROP TABLE numbers",
    shifted=_sqlite_shifted,
    scheduled=lambda time: f"json_set(state_details, '$.scheduled_time', replace({time}, ' ', 'T') || '+00:00')",
    columns="SELECT name FROM pragma_table_info('{table}')",
)

POSTGRESQL_DIALECT = Dialect(
    numbers=(
        "CREATE TEMP TABLE numbers AS SELECT number, gen_random_uuid() AS run_id, gen_random_uuid() AS state_id "
        "FROM generate_series(1, {count}) AS number"
    ),
    drop="DROP TABLE numbers",
    shifted=lambda column, milliseconds: f"{column} + ({milliseconds}) * interval '1 millisecond'",
    scheduled=lambda time: f"jsonb_set(state_details::jsonb, '{{scheduled_time}}', to_jsonb({time}))",
    columns=(
        "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' "
        "AND table_schema = current_schema() AND is_generated = 'NEVER'"
    ),
)


@dataclass(frozen=True)
class Copies:
    """So many copies of one run.

    Attributes:
        run_id: which run.
        count: how many.
        milliseconds: how far apart, forwards if they wait (as parked runs are), backwards if they have ended.
    """

    run_id: str
    count: int
    milliseconds: int


def copy_sql(table: str, columns: Sequence[str], replaced: Mapping[str, str], where: str) -> str:
    """The statement that copies a row of a table once for each of the ``numbers``, with some columns replaced."""
    names = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(replaced.get(column, f'{table}."{column}"') for column in columns)
    return f'INSERT INTO "{table}" ({names}) SELECT {values} FROM "{table}", numbers WHERE {where}'


def statements(dialect: Dialect, copies: Copies, run_columns: Sequence[str], state_columns: Sequence[str]) -> list[str]:
    """All statements that make these copies."""
    moved = f"{NUMBER} * {copies.milliseconds}"
    times = ("created", "updated", "expected_start_time", "next_scheduled_start_time", "start_time", "end_time")
    run = {name: dialect.shifted(f"flow_run.{name}", moved) for name in (*times, "state_timestamp")}
    run |= {
        "id": "numbers.run_id",
        "state_id": "numbers.state_id",
        "idempotency_key": "CAST(numbers.run_id AS VARCHAR)",
        "name": f"'copy-' || {NUMBER}",
    }
    due = dialect.shifted("flow_run.next_scheduled_start_time", moved)
    state = {name: dialect.shifted(f"flow_run_state.{name}", moved) for name in ("created", "updated", "timestamp")}
    state |= {"id": "numbers.state_id", "flow_run_id": "numbers.run_id"}
    if copies.milliseconds > 0:
        source = f"(SELECT {due} FROM flow_run WHERE flow_run.id = '{copies.run_id}')"
        state["state_details"] = dialect.scheduled(source)
    last = f"(SELECT state_id FROM flow_run WHERE id = '{copies.run_id}')"
    return [
        dialect.numbers.format(count=copies.count),
        copy_sql("flow_run_state", state_columns, state, f"flow_run_state.id = {last}"),
        copy_sql("flow_run", run_columns, run, f"flow_run.id = '{copies.run_id}'"),
        dialect.drop,
    ]


def load(on: Database, wanted: Sequence[Copies]) -> None:
    """Make the copies. No Prefect server may run on the database."""
    if on.kind == SQLITE:
        _load_sqlite(on, wanted)
    else:
        anyio.run(_load_postgresql, on, wanted)


def _load_sqlite(on: Database, wanted: Sequence[Copies]) -> None:
    connection = sqlite3.connect(on.home / "prefect.db", isolation_level=None)
    try:
        columns = [_names(connection.execute(_asking(SQLITE_DIALECT, table)).fetchall()) for table in _TABLES]
        connection.execute("BEGIN")
        for copies in wanted:
            for statement in statements(SQLITE_DIALECT, copies, *columns):
                connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


async def _load_postgresql(on: Database, wanted: Sequence[Copies]) -> None:
    connection = await asyncpg.connect(host=str(on.postgresql_folder), user="postgres", database="postgres")
    try:
        columns = [_names(await connection.fetch(_asking(POSTGRESQL_DIALECT, table))) for table in _TABLES]
        # A run and its state refer to each other.
        await connection.execute("SET session_replication_role = replica")
        for copies in wanted:
            for statement in statements(POSTGRESQL_DIALECT, copies, *columns):
                await connection.execute(statement)
        # As autovacuum does within a minute or so of such a change.
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


_TABLES = ("flow_run", "flow_run_state")


def _asking(dialect: Dialect, table: str) -> str:
    return dialect.columns.format(table=table)


def _names(rows: Sequence[Any]) -> list[str]:
    return [row[0] for row in rows]

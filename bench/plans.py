"""What the databases' planners make of the requests of a fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from bench.servers import Database


def plans_of(on: Database, deployment_id: UUID, turn: Callable[[], None]) -> list[dict[str, Any]]:
    return []

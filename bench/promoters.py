"""Eight processes fill one queue at the same moment, thousands of times, while the server has much else to write.

    python -m bench.promoters --rounds 2000 --database postgresql

Each round frees one, two or three of three slots; then all fill at once. It is the round of
``tests/server/test_many_promoters.py``, which plays 50 on each database.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import conftest  # first: it takes the caller's own settings out of the environment  # isort: skip
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from bench.environment import end_on_sigterm
from ordered_queue.embedded import EmbeddedServer, prefect_server
from tests.postgresql import postgresql
from tests.server.deployed import Deployed
from tests.server.many_promoters import LIMIT, PROMOTERS, ROUNDS, VIOLATIONS, play, promoters, under_write_load


def main(given: Sequence[str] | None = None) -> int:
    """Play the rounds and print what was seen; 0 if nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m bench.promoters", description="Many promoters on one queue.")
    parser.add_argument("--rounds", type=int, default=2000, help=f"rounded up to a multiple of {ROUNDS} (2000)")
    parser.add_argument("--database", choices=conftest.DATABASES, default="sqlite")
    options = parser.parse_args(given)
    end_on_sigterm()
    seen: Counter[str] = Counter()
    started = time.monotonic()
    with (
        server_on(options.database) as server,
        temporary_settings(updates={PREFECT_API_URL: server.api_url}),
        get_client(httpx_settings={"timeout": 60}, sync_client=True) as client,
        under_write_load(server, Deployed.create(client, None).id),
        promoters(server) as promoting,
    ):
        while seen["rounds"] < options.rounds:
            queue = Deployed.create(client, LIMIT)
            seen.update(play(queue, promoting))
            client.request("DELETE", f"/deployments/{queue.id}")
            violations = {kind: seen[kind] for kind in VIOLATIONS if seen[kind]}
            sys.stderr.write(f"{seen['rounds']} rounds, violations: {violations or 'none'}\n")
            if sum(seen[kind] for kind in VIOLATIONS) > 20:
                break
    seconds = time.monotonic() - started
    print(f"{PROMOTERS} promoters, {LIMIT} slots, {options.database}, under write load, {seconds / 60:.0f} min:\n")
    print("| | |\n| --- | --- |")
    for kind in [kind for kind in seen if kind not in VIOLATIONS] + list(VIOLATIONS):
        print(f"| {kind} | {seen[kind]} |")
    return 1 if any(seen[kind] for kind in VIOLATIONS) else 0


@contextmanager
def server_on(database: str) -> Generator[EmbeddedServer, None, None]:
    """A server of our own on that database."""
    with tempfile.TemporaryDirectory(prefix="ordered-queue-bench-", ignore_cleanup_errors=True) as home:
        if database == "sqlite":
            with prefect_server(Path(home)) as server:
                yield server
            return
        with (
            postgresql({}) as url,
            prefect_server(Path(home), settings={"PREFECT_API_DATABASE_CONNECTION_URL": url}) as server,
        ):
            yield server


if __name__ == "__main__":
    sys.exit(main())

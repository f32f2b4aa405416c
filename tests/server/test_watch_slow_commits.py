"""Prefect tells of a change from within the transaction: a watcher that looks at once still reads what was before."""

import pytest

from tests.conftest import on_postgresql
from tests.postgresql import slow_commits
from tests.server.deployed import wait_until
from tests.server.watching import NEVER, watching

pytestmark = on_postgresql


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("flow_run", lambda queue, run: queue.finish(run)),
        ("concurrency_limit_v2", lambda queue, run: queue.set_limit(2)),
    ],
)
def test_the_watcher_sees_a_change_that_was_committed_after_its_event(server, deploy, tmp_path, table, change):
    queue = deploy(limit=1)
    runs = queue.park(3)
    queue.start(runs[0])
    with watching(server, tmp_path / "log", "--sweep-seconds", NEVER):
        # The watcher follows the events and its first sweep is over: nothing else will find the change.
        queue.finish(runs[0])
        wait_until(lambda: queue.state_of(runs[1]) == "Late", what="promotion by the watcher")
        queue.start(runs[1])

        with slow_commits(server.env["PREFECT_API_DATABASE_CONNECTION_URL"], table, seconds=0.5):
            change(queue, runs[1])

        wait_until(lambda: queue.state_of(runs[2]) == "Late", what="promotion after the commit")

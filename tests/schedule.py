"""Which of the suite's processes runs which tests, and in which order: hooks of pytest and of pytest-xdist."""

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "test_worker.py",
    "test_ordered_worker.py",
    "test_served_flows.py",
    "test_demo.py",
    "test_many_promoters.py",
    "test_deployments_yaml.py",
    "test_cli_streams.py",
    "test_park.py",
    "test_watch.py",
    "test_server_restarted.py",
    "test_park_in_little_memory.py",
)
"""They come first, so that none is left for the end, when the other processes have nothing to do any more."""


def scope(nodeid: str) -> str:
    """What stays together: a file, and all that needs PostgreSQL, whose server takes long to start."""
    return "postgresql" if "postgresql" in nodeid.rsplit("::", 1)[-1] else nodeid.split("::", 1)[0]


class ByServer(LoadScopeScheduling):
    """Scopes go to whichever process is free, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByServer(config, log)


def pytest_collection_modifyitems(items):
    ranks = {name: rank for rank, name in enumerate(LONGEST, start=1)}

    def rank(item):
        return 0 if scope(item.nodeid) == "postgresql" else ranks.get(item.path.name, len(ranks) + 1)

    items.sort(key=rank)  # stable: what is of one rank stays in its order

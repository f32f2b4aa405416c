"""What every test stands on: none of the caller's settings, a real server for the session, a deployment a test."""

import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

# Before Prefect is imported, which reads its settings once.
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
_home = tempfile.TemporaryDirectory(prefix="ordered-queue-tests-")
os.environ.update(
    {
        "PREFECT_HOME": _home.name,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        # No test speaks TLS, and reading the certificates takes 50 ms for each client.
        "PREFECT_API_TLS_INSECURE_SKIP_VERIFY": "true",
        "DO_NOT_TRACK": "1",
    }
)

# A shell starts what it runs in the background with this signal ignored, and what we start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# After the environment is clean.
import pytest  # noqa: E402
from prefect.client.orchestration import get_client  # noqa: E402
from prefect.exceptions import PrefectHTTPStatusError  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402

from ordered_queue.embedded import prefect_server  # noqa: E402
from tests.postgresql import postgresql  # noqa: E402
from tests.schedule import pytest_collection_modifyitems, pytest_xdist_make_scheduler  # noqa: E402, F401  # hooks
from tests.server.deployed import Deployed  # noqa: E402

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def anyio_backend():
    """Prefect runs on asyncio."""
    return "asyncio"


DATABASES = ["sqlite", "postgresql"]

on_both_databases = pytest.mark.parametrize("server", DATABASES, indirect=True)
"""For a test or a module: its server stands on SQLite once, on PostgreSQL once."""

on_postgresql = pytest.mark.parametrize("server", ["postgresql"], indirect=True)
"""For what depends on how PostgreSQL commits."""


LEAN = {
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
}
"""Without two services. One looks for the children of every run ever cancelled, three times a minute: here those are
thousands, and half of what the server does. The other looks at every event whether it is one of a task's run."""


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory):
    """A Prefect server on SQLite. It takes some seconds to start, so all tests share it."""
    with prefect_server(tmp_path_factory.mktemp("prefect"), settings=LEAN) as started:
        yield started


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory):
    """A Prefect server on PostgreSQL."""
    with postgresql() as url:
        settings = {"PREFECT_API_DATABASE_CONNECTION_URL": url, **LEAN}
        with prefect_server(tmp_path_factory.mktemp("prefect-pg"), settings=settings) as started:
            yield started


@pytest.fixture(scope="module")
def server(request):
    """The server of the test: on SQLite, unless the test says otherwise."""
    started = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_server")
    with temporary_settings(updates={PREFECT_API_URL: started.api_url}):
        yield started


@pytest.fixture
def client(server):
    """A sync client of the server, which the settings name."""
    with get_client(httpx_settings={"timeout": 30}, sync_client=True) as opened:
        yield opened


@pytest.fixture
def deploy(client):
    """Make a deployment of a flow of its own, with a limit. It goes with the test: a sweep looks at every queue."""
    made: list[Deployed] = []

    def make(limit: int | None = 1, **fields) -> Deployed:
        made.append(Deployed.create(client, limit, **fields))
        return made[-1]

    yield make
    for deployed in made:
        with suppress(PrefectHTTPStatusError):  # the test itself may have deleted it
            client.request("DELETE", f"/deployments/{deployed.id}")

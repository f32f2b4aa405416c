"""A real Prefect server for the session, and a deployment of one's own for each test."""

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from ordered_queue.embedded import prefect_server
from tests.server.deployed import Deployed


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server on SQLite. It takes some seconds to start, so all tests share it."""
    with (
        prefect_server(tmp_path_factory.mktemp("prefect")) as started,
        temporary_settings(updates={PREFECT_API_URL: started.api_url}),
    ):
        yield started


@pytest.fixture
def client(server):
    """A sync client."""
    with (
        temporary_settings(updates={PREFECT_API_URL: server.api_url}),
        get_client(httpx_settings={"timeout": 30}, sync_client=True) as opened,
    ):
        yield opened


@pytest.fixture
def deploy(client):
    """Make a deployment of a flow of its own, with a limit."""

    def make(limit: int | None = 1, **fields) -> Deployed:
        return Deployed.create(client, limit, **fields)

    return make

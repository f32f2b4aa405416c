"""The wire, for both clients: what is sent, and what comes of every answer."""

import anyio
import pytest
import respx
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

import ordered_queue

API = "http://prefect.test/api"
KEY = "pnu_secret"


@pytest.fixture(scope="module", autouse=True)
def settings():
    updates = {PREFECT_API_URL: API, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False, PREFECT_API_KEY: KEY}
    with temporary_settings(updates=updates):
        yield


@pytest.fixture
def wire():
    with respx.mock(base_url=API, assert_all_called=False) as mock:
        yield mock


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Pauses between attempts pass at once; how long they would have been is kept."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("ordered_queue._drive.anyio.sleep", sleep)
    monkeypatch.setattr("ordered_queue._drive.time.sleep", pauses.append)
    return pauses


@pytest.fixture(autouse=True)
def no_memory(monkeypatch):
    """What was found out about the server of one test is no news of the next one's."""
    monkeypatch.setattr("ordered_queue._steps.server._known_good", set())


class AsyncCalls:
    """The async names, called from sync tests."""

    @staticmethod
    def _run(call):
        async def main():
            async with get_client() as client:
                return await call(client)

        return anyio.run(main)

    def fill(self, deployment_id, exclude=None):
        return self._run(lambda client: ordered_queue.fill_free_slots(client, deployment_id, exclude))

    def park(self, deployment, runs, **options):
        return self._run(lambda client: ordered_queue.park(deployment, runs, client=client, **options))

    def sweep(self, deployment_id=None):
        return self._run(lambda client: ordered_queue.sweep(client, deployment_id))


class SyncCalls:
    """The sync names."""

    def fill(self, deployment_id, exclude=None):
        with get_client(sync_client=True) as client:
            return ordered_queue.fill_free_slots_sync(client, deployment_id, exclude)

    def park(self, deployment, runs, **options):
        with get_client(sync_client=True) as client:
            return ordered_queue.park_sync(deployment, runs, client=client, **options)

    def sweep(self, deployment_id=None):
        with get_client(sync_client=True) as client:
            return ordered_queue.sweep_sync(client, deployment_id)


@pytest.fixture(params=[AsyncCalls(), SyncCalls()], ids=["async", "sync"])
def calls(request):
    return request.param

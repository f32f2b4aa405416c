"""What a process of many does that fill one queue: it is sent a deployment's id, fills its queue, and answers how many
it promoted and whether the fill came to its end."""

from prefect.client.orchestration import SyncPrefectClient

from ordered_queue import sweep_sync


def promote(connection, api_url):
    """Until it is ended."""
    with SyncPrefectClient(api_url, httpx_settings={"timeout": 30}) as client:
        connection.send("ready")
        while True:
            swept = sweep_sync(client, connection.recv())[0]
            connection.send((swept.promoted, swept.problem is None))

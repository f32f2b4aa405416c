"""A process that fills: it reads a deployment's id a line, fills its queue, and says how many it promoted and whether
the fill came to its end."""

import sys
from uuid import UUID

from prefect.client.orchestration import get_client

from ordered_queue import sweep_sync

with get_client(httpx_settings={"timeout": 30}, sync_client=True) as client:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        swept = sweep_sync(client, UUID(line.strip()))[0]
        sys.stdout.write(f"{swept.promoted} {'whole' if swept.problem is None else 'cut-short'}\n")
        sys.stdout.flush()

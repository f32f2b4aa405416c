"""A process that fills: it reads a deployment's id a line, fills its queue, and answers with how many it promoted."""

import sys
from uuid import UUID

from prefect.client.orchestration import get_client

from ordered_queue import fill_free_slots_sync

with get_client(sync_client=True) as client:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(f"{fill_free_slots_sync(client, UUID(line.strip()))}\n")
        sys.stdout.flush()

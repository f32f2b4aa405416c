"""A process that submits: it parks a number of runs under a key, and says after each chunk how many are parked."""

import sys
from uuid import UUID

from ordered_queue import park_sync

deployment_id, submission_key, count = UUID(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def tell(parked):
    sys.stdout.write(f"{parked[-1].position + 1}\n")
    sys.stdout.flush()


rows = [{"number": number} for number in range(count)]
park_sync(deployment_id, rows, submission_key=submission_key, on_parked=tell)

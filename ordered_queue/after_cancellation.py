"""`python -m ordered_queue.after_cancellation FLOW_RUN_ID DEPLOYMENT_ID`: what the cancellation hook leaves behind.

Under a worker a run becomes Cancelled only after the hook's process has ended. This one outlives it by seconds.
"""

import sys
from uuid import UUID

from ordered_queue.hooks import fill_after_cancellation

if __name__ == "__main__":
    fill_after_cancellation(UUID(sys.argv[1]), UUID(sys.argv[2]))

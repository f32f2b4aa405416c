"""`python -m ordered_queue.cli`: the command, where its script is not on the path."""

import sys

from ordered_queue.cli import main

sys.exit(main())

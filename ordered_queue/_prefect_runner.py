"""The one private part of Prefect that we use: a runner has no public way to be told to poll now.

``tests/contract/test_private_parts.py`` fails by name when Prefect changes it.
"""

from __future__ import annotations

from prefect.runner import Runner


async def poll_now(runner: Runner) -> None:
    """Ask for due runs and start them, once; nothing before the runner has started, and once it stops.

    A run that the runner is submitting or running is not started again by a second poll at the same time.

    Source: ``prefect.runner.Runner._get_and_submit_flow_runs``, Prefect 3.7.6 and 3.9.1.
    """
    if runner.started and not runner.stopping:
        await runner._get_and_submit_flow_runs()  # pyright: ignore[reportPrivateUsage]  # see above

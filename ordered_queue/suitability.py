"""Which deployments runs may be parked on, and what their submitter should know of one.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue.errors import DeploymentRefused
from ordered_queue.ordering import PARKED_TAG
from ordered_queue.promotion import limit_of
from ordered_queue.submission import is_cancel_new


def refuse_unsuitable(deployment: DeploymentResponse) -> None:
    """Refuse a deployment on which parked runs would come to harm.

    Raises:
        DeploymentRefused: its collision strategy is CANCEL_NEW.
    """
    if is_cancel_new(deployment):
        raise DeploymentRefused(
            deployment.name,
            "its collision strategy is CANCEL_NEW, which cancels a waiting run that finds no slot. Deploy it with "
            "collision_strategy ENQUEUE (`concurrency_limit: {limit: N, collision_strategy: ENQUEUE}`).",
        )


def notes_on(deployment: DeploymentResponse) -> list[str]:
    """What a submitter should know of the deployment, each a sentence without its subject and full stop."""
    concurrency_limit = deployment.global_concurrency_limit
    limit = limit_of(deployment)
    notes: list[str] = []
    if limit is None:
        notes.append("it has no concurrency limit: every parked run is promoted at once")
    elif limit == 0:
        notes.append("its concurrency limit is inactive or 0: nothing is promoted until that changes")
    if concurrency_limit is not None and concurrency_limit.name != f"deployment:{deployment.id}":
        notes.append(
            f"its concurrency limit {concurrency_limit.name!r} is not its own: runs of other deployments that share it "
            "are not counted, so a promoted run may find no slot and bounce for 30 s"
        )
    if PARKED_TAG in deployment.tags:
        notes.append(
            f"it carries the tag {PARKED_TAG!r} itself, so every run of it counts as a member of the queue; take the "
            "tag off the deployment"
        )
    return notes

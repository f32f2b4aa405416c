"""Which waiting runs to promote: the one decision that the whole queue stands on.

free = limit - occupied, never negative; the `free` earliest waiting runs are promoted, earliest first.

Pure: no client, no clock, no settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from ordered_queue.ordering import aware, order_key, standing
from ordered_queue.runs import Decision, Reason, Standing, Verdict

NOBODY: Mapping[UUID, Standing] = MappingProxyType({})
_ASIDE = {Standing.OUT_OF_REACH: Reason.OUT_OF_REACH, Standing.ZOMBIE: Reason.LAPSED}


def limit_of(deployment: DeploymentResponse) -> int | None:
    """How many runs of the deployment may hold a slot at once.

    Returns:
        None without a limit, 0 for an inactive one (the server then gives no slots), else the limit.

    Source: ``deployment.global_concurrency_limit``; ``deployment.concurrency_limit`` is always None in Prefect 3.
    """
    concurrency_limit = deployment.global_concurrency_limit
    if concurrency_limit is None:
        return None
    return concurrency_limit.limit if concurrency_limit.active else 0


def runs_to_promote(
    runs: Iterable[FlowRun],
    limit: int | None,
    now: datetime,
    exclude_flow_run_id: UUID | None = None,
) -> list[FlowRun]:
    """Which waiting runs to move to now, earliest first.

    Args:
        runs: what is known of the deployment's runs, in any order. A run may be there twice: it counts once.
        limit: what `limit_of` says; None is unlimited.
        now: aware; the server's time.
        exclude_flow_run_id: the run that is handing its slot over, still Running as it does so; it does not count
            as occupying.

    Raises:
        ValueError: `now` or a run's scheduled time is naive.
    """
    return decide(runs, limit, now, exclude_flow_run_id).promote


def decide(
    runs: Iterable[FlowRun],
    limit: int | None,
    now: datetime,
    exclude_flow_run_id: UUID | None = None,
    aside: Mapping[UUID, Standing] = NOBODY,
) -> Decision:
    """Like `runs_to_promote`, with a verdict and its reason for each run that was looked at.

    Args:
        runs: as there.
        limit: as there.
        now: as there.
        exclude_flow_run_id: as there.
        aside: runs that take no slot and no position, whatever their states say, and what they are instead.
    """
    now = aware(now, "now")
    seen: dict[UUID, tuple[FlowRun, Standing]] = {}
    for run in runs:
        stands = aside.get(run.id) or standing(run, now)
        # A run that moved on between two reads is in both. It was read as waiting first and as occupying
        # later, so the occupying one is the news; counting it as waiting too would promise its slot away.
        if run.id not in seen or stands.is_occupying:
            seen[run.id] = (run, stands)

    verdicts: list[Verdict] = []
    waiting: list[FlowRun] = []
    occupied = 0
    for run, stands in seen.values():
        if stands is Standing.WAITING:
            if run.id != exclude_flow_run_id:
                waiting.append(run)
        elif not stands.is_occupying:
            verdicts.append(Verdict(run, stands, _ASIDE.get(stands, Reason.NOT_QUEUED)))
        elif run.id == exclude_flow_run_id:
            verdicts.append(Verdict(run, stands, Reason.HANDING_OVER))
        else:
            occupied += 1
            verdicts.append(Verdict(run, stands, Reason.OCCUPYING))

    free = len(waiting) if limit is None else max(0, limit - occupied)
    for position, run in enumerate(sorted(waiting, key=order_key)):
        reason = Reason.SLOT_FREE if position < free else Reason.NO_SLOT_FREE
        verdicts.append(Verdict(run, Standing.WAITING, reason, position))
    return Decision(limit=limit, occupied=occupied, verdicts=tuple(verdicts))


def promotion_times(now: datetime, count: int) -> list[datetime]:
    """Strictly increasing times for `count` promotions, the last of them `now`.

    None lies in the future: a poller takes a run up to 10 s early and would hold its slot idle until then. Equal times
    have no defined order (the poll query has no tie-break).
    """
    latest = aware(now, "now")
    return [latest - timedelta(microseconds=count - 1 - index) for index in range(count)]

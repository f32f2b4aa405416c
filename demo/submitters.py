"""Two submitters that park their runs at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun

from ordered_queue import RunRequest, park_sync

SUBMITTERS = ("A", "B")
RUNS_EACH = 6
BATCH = 2
SUBMITTER_LABEL = "demo.submitter"


def park_from_all(api_url: str, deployment_name: str) -> None:
    """Park every submitter's runs, a few in each submission, from all submitters at once.

    The first submission goes ahead alone and takes the free slots. Otherwise two submissions would race for them, and
    the one that reaches the server first has nobody before it, whatever its parked time says.
    """
    requests = {submitter: requests_of(submitter) for submitter in SUBMITTERS}
    first = requests[SUBMITTERS[0]]
    _park(api_url, deployment_name, first[:BATCH])
    requests[SUBMITTERS[0]] = first[BATCH:]
    with ThreadPoolExecutor(len(SUBMITTERS)) as threads:
        parking = [threads.submit(_park, api_url, deployment_name, each) for each in requests.values()]
        for each in parking:
            each.result()


def requests_of(submitter: str) -> list[RunRequest]:
    """What a submitter asks for, in order."""
    names = [f"{submitter}{number}" for number in range(1, RUNS_EACH + 1)]
    return [RunRequest({"item": name}, name=name, labels={SUBMITTER_LABEL: submitter}) for name in names]


def submitter_of(run: FlowRun) -> str:
    """Who parked a run."""
    return str(run.labels.get(SUBMITTER_LABEL, "?"))


def _park(api_url: str, deployment_name: str, requests: list[RunRequest]) -> None:
    with SyncPrefectClient(api_url) as client:
        for start in range(0, len(requests), BATCH):
            park_sync(deployment_name, requests[start : start + BATCH], client=client)

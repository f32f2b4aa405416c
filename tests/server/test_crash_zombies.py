"""`crash-zombies.yaml`, as `prefect automation create` installs it, with a short `within`.

The heartbeats are sent by hand, as a flow's process does.
"""

from contextlib import contextmanager
from datetime import datetime, timezone
from uuid import uuid4

import yaml
from prefect.events.schemas.automations import AutomationCore

from ordered_queue import PARKED_TAG, fill_free_slots_sync
from tests.conftest import ROOT
from tests.server.deployed import wait_until

SHORTEST_WITHIN = 10
"""Source: Prefect refuses a proactive trigger of less than 10 s."""


@contextmanager
def installed(client):
    (body,) = yaml.safe_load((ROOT / "crash-zombies.yaml").read_text())["automations"]
    assert body["trigger"]["within"] >= 3 * 180
    body["trigger"]["within"] = SHORTEST_WITHIN
    automation_id = client.create_automation(AutomationCore.model_validate(body))
    try:
        yield
    finally:
        client.request("DELETE", f"/automations/{automation_id}")


def beat(client, run_id, *tags):
    """One heartbeat, with what it names as related: the run's tags."""
    related = [
        {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag", "prefect.resource.name": tag}
        for tag in tags
    ]
    event = {
        "id": str(uuid4()),
        "event": "prefect.flow-run.heartbeat",
        "occurred": datetime.now(timezone.utc).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run_id}"},
        "related": related,
    }
    client.request("POST", "/events", json=[event])


def test_a_queued_run_whose_heartbeats_stop_is_crashed_and_others_are_left_alone(deploy, client):
    queue = deploy(limit=2)
    dead, suspended, following = (run.flow_run_id for run in queue.park(3))
    other = deploy(limit=None).create_outsider()
    for run in (dead, suspended, other):
        queue.start(run)

    with installed(client):
        for run in (suspended, dead):
            beat(client, run, PARKED_TAG)
        beat(client, other)
        details = {"pause_timeout": "2100-01-01T00:00:00Z", "pause_reschedule": True, "pause_key": "k"}
        queue.set_state(suspended, "PAUSED", name="Suspended", state_details=details)

        wait_until(lambda: queue.state_of(dead) == "Crashed", 60, "the dead run to be Crashed")

    assert queue.states([suspended, other]) == ["Suspended", "Running"]
    assert fill_free_slots_sync(client, queue.id) == 1
    assert queue.state_of(following) == "Late"

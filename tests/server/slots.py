"""The server's counter of a deployment's slots, and what goes wrong with it."""


def counter_of(queue):
    """How many slots the server counts as taken."""
    return queue.client.read_deployment(queue.id).global_concurrency_limit.active_slots


def lapse(queue, run):
    """Let the run's lease lapse: what the server does 300 s after its process died."""
    lease_id = queue.read(run.flow_run_id).state.state_details.deployment_concurrency_lease_id
    queue.client.request("POST", "/v2/concurrency_limits/decrement-with-lease", json={"lease_id": str(lease_id)})


def zombie_beside_a_live_run(queue):
    """Three runs of a queue with limit 1: the lease of the first has lapsed, and the second took its slot."""
    runs = queue.park(3)
    queue.start(runs[0])
    lapse(queue, runs[0])
    queue.set_state(runs[1], "SCHEDULED", name="Late")
    queue.start(runs[1])
    return runs


def leak(queue, slots=1):
    """Let the server count slots that no run holds."""
    limit = queue.client.read_deployment(queue.id).global_concurrency_limit
    body = {"names": [limit.name], "slots": slots}
    queue.client.request("POST", "/v2/concurrency_limits/increment", json=body)

"""The server's counter of a deployment's slots, and what goes wrong with it."""


def counter_of(queue):
    """How many slots the server counts as taken."""
    return queue.client.read_deployment(queue.id).global_concurrency_limit.active_slots


def lapse(queue, run):
    """Let the run's lease lapse: what the server does 300 s after its process died."""
    lease_id = queue.read(run.flow_run_id).state.state_details.deployment_concurrency_lease_id
    queue.client.request("POST", "/v2/concurrency_limits/decrement-with-lease", json={"lease_id": str(lease_id)})


def leak(queue, slots=1):
    """Let the server count slots that no run holds."""
    limit = queue.client.read_deployment(queue.id).global_concurrency_limit
    body = {"names": [limit.name], "slots": slots}
    queue.client.request("POST", "/v2/concurrency_limits/increment", json=body)
